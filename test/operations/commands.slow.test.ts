import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import type { CheckReport } from '../../src/composition/check.js'
import type { Explanation } from '../../src/explain/explain.js'
import { openStore } from '../../src/store/store.js'
import { runCommand, startCommand } from '../support/command.js'
import { demoConfig } from '../support/demo-config.js'
import { temporaryFolder } from '../support/temporary-folder.js'

/** The demo's configuration, and the option that names it. */
async function demo(t: Test, change?: (text: string) => string) {
  const { folder, file } = await demoConfig(t, change)
  return { folder, config: ['--config', file] }
}

test('check says what would be federated and why not more, and leaves no trace', async (t) => {
  const { folder, config } = await demo(t, (text) =>
    text
      .replace(
        'role: buyer',
        'role: buyer\n      credentials: { "https://nobody.example/mcp": { type: bearer, token: s3cret } }',
      )
      .concat('\nauthorization: { providers: { "typo.example": { policy: lenient } } }\n'),
  )
  const { code, out, err } = await runCommand(['check', ...config, '--json'])
  t.equal(code, 4, err)
  const report = JSON.parse(out) as CheckReport
  t.match(report, { outcome: 'incomplete', registries: [{ agents: 6 }], excluded: [] })
  t.ok(report.signals > 2_000)
  t.equal(report.upstreams.length, 6)
  t.match(
    report.upstreams.find(({ id }) => id.includes('fogbank')),
    {
      state: 'absent',
      published: 0,
      problem: { reason: 'unreachable' },
    },
  )
  t.match(
    report.upstreams.find(({ id }) => id.includes('gullwing')),
    {
      state: 'fresh',
      published: 0,
      withheld: { agent_not_listed: Number },
      hint: /trailing slash/,
    },
  )
  t.match(
    report.providers.find(({ domain }) => domain === 'quietfield.example'),
    { problem: { reason: 'no_file' } },
  )
  t.same(report.warnings, [
    'caller demo-buyer names the upstream https://nobody.example/mcp, which is not in the roster',
    'authorization.providers names typo.example, which no row names',
  ])
  t.notMatch(out, /s3cret/)
  t.same(await readdir(folder), ['config.yaml'], 'nothing was written')
})

test('check fails when nothing would be federated', async (t) => {
  const folder = await temporaryFolder(t)
  const file = join(folder, 'config.json')
  const config = {
    upstreams: [{ id: 'gone', url: 'http://127.0.0.1:2/mcp', protocol: 'mcp' }],
    egress: { allow_networks: ['127.0.0.0/8'] },
  }
  await writeFile(file, JSON.stringify(config))
  const { code, out, err } = await runCommand(['check', '--config', file])
  t.equal(code, 1)
  t.match(out, /gone +mcp +absent +0 +0\n[\s\S]*\ngone: unreachable: .*whoever runs it/)
  t.match(out, /Nothing would be federated/)
  t.equal(err, 'tributary: nothing would be federated\n', 'no stack, no progress where there is no terminal')
  t.notOk(out.includes('\u001b'), 'no colours')
})

test('explain asks a running server; authz and ledger look beside it', async (t) => {
  const { folder, config } = await demo(t)
  const server = startCommand(['serve', ...config, '--sandbox-signals', '240'])
  t.teardown(() => server.process.kill('SIGKILL'))
  const [, url = ''] = await server.printed(/signals in one feed at (http:\S+)\/mcp/)
  const at = [...config, '--url', url]

  await t.test('explain tells why an upstream or a signal is or is not there', async (t) => {
    const text = await runCommand(['explain', ...at, 'signals.gullwing.example'])
    t.equal(text.code, 0, text.err)
    t.match(text.out, /^signals\.gullwing\.example: nothing_published\nthe upstream is read/)
    t.match(text.out, /the provider lists it with/)
    const lines = (await runCommand(['feed', ...config, '--url', `${url}/mcp`, '--json'])).out
      .trim()
      .split('\n')
    const rows = lines.map(
      (line) => JSON.parse(line) as { signal_agent_segment_id: string; signal_ref: { scope: string } },
    )
    const handle =
      rows.find(({ signal_ref }) => signal_ref.scope === 'data_provider')?.signal_agent_segment_id ?? ''
    const json = await runCommand(['explain', ...at, handle, '--caller', 'demo-buyer', '--json'])
    const explained = JSON.parse(json.out) as Explanation
    t.match(explained, { reason: 'present', view: { access: 'full' }, signal: { handle, shown: true } })
    const filtered = ['--caller', 'demo-buyer', '--filters', '{"catalog_types":["owned"]}']
    const out = (await runCommand(['explain', ...at, handle, ...filtered])).out
    t.match(out, /filtered_out \(filters\.catalog_types\)/)
    t.match(out, /offer of +fate +verdict/)
    t.match(out, /provider \S+: https:\/\/\S+, confirmed /)
    t.match(await runCommand(['explain', ...at, handle, '--token', 'demo-buyer-key']), {
      code: 1,
      err: /needs a key with role: operator/,
    })
    t.match(await runCommand(['explain', ...at, handle, '--caller', 'stranger']), {
      code: 1,
      err: /no caller/,
    })
    t.match(await runCommand(['explain', ...config, '--url', 'http://127.0.0.1:2', handle]), {
      code: 1,
      err: /127\.0\.0\.1:2 cannot be reached .*is the server running/,
    })
  })

  await t.test('authz tells what a file grants, and what to write for an agent', async (t) => {
    const granted = ['--agent', 'https://new.example/mcp', '--tags', 'heritage']
    const text = await runCommand(['authz', ...config, 'larderloyalty.example', ...granted])
    t.equal(text.code, 0, text.err)
    t.match(text.out, /https:\/\/new\.example\/mcp {2}0 of \d+ signals/)
    t.match(text.out, /"authorization_type": "signal_tags"/)
    const none = await runCommand(['authz', ...config, 'quietfield.example', '--json'])
    t.equal(none.code, 4)
    t.match(JSON.parse(none.out), { provider: 'quietfield.example', unverifiable: 'no_file' })
    t.match(await runCommand(['authz', ...config, 'localhost']), { code: 2, err: /no registrable domain/ })
    t.match(await runCommand(['authz', ...config, 'x.example', '--ids', 'a']), {
      code: 2,
      err: /need --agent/,
    })
  })

  await t.test('ledger prints what was done, filtered, while the server runs', async (t) => {
    const store = await openStore({
      url: `file:${folder}/data`,
      whileInUse: true,
      now: Date.now,
      onProblem: t.comment,
    })
    const entry = {
      ...{
        id: 'call-1',
        caller: 'demo-buyer',
        action: 'activate' as const,
        handle: 'sig_a',
        signalHandle: 'sig_a',
      },
      ...{
        offerHandle: 'sig_a.b',
        upstream: 'northwind',
        agentUrl: 'https://n.example/mcp',
        segmentId: 'seg',
      },
      destinations: [{ type: 'platform', platform: 'the-trade-desk', account: 'seat-1' }],
      ...{ seenAs: 'shared' as const, seq: 1 },
    }
    await store.ledger.recordAll([entry])
    await store.ledger.recordAll([{ ...entry, id: 'call-2', action: 'deactivate', upstream: 'meridian' }])
    await store.close()
    const table = await runCommand(['ledger', ...config])
    t.equal(table.code, 0, table.err)
    t.match(table.out, /demo-buyer +activate +pending +northwind +the-trade-desk \(seat-1\) +sig_a/)
    t.match(table.out, /2 entries\n$/)
    t.match((await runCommand(['ledger', ...config, '--limit', '1'])).out, /1 entry, the newest of more/)
    const json = await runCommand(['ledger', ...config, '--upstream', 'meridian', '--since', '1h', '--json'])
    t.match(JSON.parse(json.out), { id: 'call-2', action: 'deactivate', segmentId: 'seg' })
    t.equal(
      (await runCommand(['ledger', ...config, '--until', '1h', '--json'])).out,
      '',
      'nothing is that old',
    )
    t.match(await runCommand(['ledger', ...config, '--since', 'soon']), {
      code: 2,
      err: /an age such as 24h/,
    })
    t.match(await runCommand(['ledger', ...config, '--outcome', 'good']), {
      code: 2,
      err: /expected pending/,
    })
  })
})

test('ledger without a storage says where it looked, and makes none', async (t) => {
  const { folder, config } = await demo(t)
  t.match(await runCommand(['ledger', ...config]), { code: 1, err: /there is no storage at .*data/ })
  t.same(await readdir(folder), ['config.yaml'])
})

test('--help is everywhere', async (t) => {
  for (const command of ['check', 'explain', 'authz', 'ledger']) {
    const { code, out } = await runCommand([command, '--help'])
    t.equal(code, 0)
    t.match(out, new RegExp(`Usage: tributary ${command}`))
    t.match(out, /--json/)
  }
})

test('--help names the variable of a key, and shows no key', async (t) => {
  for (const command of ['feed', 'explain', 'exclude', 'jobs', 'audit', 'ask', 'activate', 'mirror']) {
    const { out } = await runCommand([command, '--help'], { TRIBUTARY_TOKEN: 'planted' })
    t.notMatch(out, /planted/, command)
    t.match(out, /\(env:\s+TRIBUTARY_TOKEN\)/, command)
  }
})

test('the time that --help of mirror gives as a default can be written', async (t) => {
  const { out } = await runCommand(['mirror', '--help'])
  const [, usual = ''] = /--every <time>.*?\(default:\s+([^)]+)\)/s.exec(out) ?? []
  const needed = ['--url', 'http://127.0.0.1:9', '--out', 'nowhere']
  const { err } = await runCommand(['mirror', ...needed, '--every', usual, '--nothing-like-that'])
  t.match(err, /unknown option '--nothing-like-that'/, `times come before it: ${usual}`)
})
