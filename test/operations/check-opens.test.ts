import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { type CheckReport, checkConfig } from '../../src/composition/check.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { openSqlite } from '../../src/store/database/sqlite.js'
import { bare, NO_POSTGRES } from '../store/support/storages.js'
import { runCommand } from '../support/command.js'
import { startServer } from '../support/server-fixture.js'
import { startHttp } from '../support/upstream-agent.js'

const NOTHING = 'http://127.0.0.1:2' // nobody listens there

test('check opens what serve would open, and says what cannot be', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-check-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const keys = await startHttp((request, response) => {
    const found = request.url === '/jwks' ? { keys: [{ kty: 'RSA', kid: 'k' }] } : { keys: [] }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(found))
  })
  t.teardown(keys.close)
  const file = join(folder, 'config.json')
  const written = async (more: object) => {
    const config = {
      egress: { allow_networks: ['127.0.0.0/8'] },
      storage: { url: `file:${folder}/data` },
      ...more,
    }
    const text = JSON.stringify(config)
    await writeFile(file, text)
    return text
  }
  async function command(more: object): Promise<{ code: number | null; report: CheckReport }> {
    await written(more)
    const { code, out } = await runCommand(['check', '--config', file, '--json'])
    return { code, report: JSON.parse(out) as CheckReport }
  }
  /** What the command prints, without a process of its own. */
  async function check(more: object): Promise<CheckReport> {
    const config = parseConfig(file, await written(more), {})
    const options = { config, clock: systemClock, random: Math.random, onProgress: () => {} }
    return JSON.parse(JSON.stringify(await checkConfig(options))) as CheckReport
  }
  const jwt = (path: string) => ({
    callers: { jwt: { issuer: 'https://i.example', audience: 'a', jwks_url: path } },
  })
  const found = async (more: object, what: string) =>
    (await check(more)).opened.find((one) => one.what === what)

  t.same(await found(jwt(`${keys.origin}/jwks`), 'key set'), {
    what: 'key set',
    place: `${keys.origin}/jwks`,
  })
  t.match(await found(jwt(`${keys.origin}/none`), 'key set'), { problem: 'it holds no keys' })
  t.match(await found(jwt(`${NOTHING}/jwks`), 'key set'), { problem: /does not answer/ })

  const report = await check({})
  t.same(report.opened[0], { what: 'storage', place: join(folder, 'data') })
  t.match(report.warnings, ['nobody could call: callers.keys is empty, and callers.anonymous is deny'])
  t.same(await readdir(folder), ['config.json'], 'nothing is made')
  t.match(await found({ storage: { url: `file:${file}/data` } }, 'storage'), {
    problem: /config\.json is no folder|cannot be written/,
  })
  const shut = await command({
    storage: { url: 'postgres://u:s3cret@127.0.0.1:2/x' },
    listen: { host: '192.0.2.1' }, // no address of any machine (RFC 5737)
  })
  t.match(shut.report.opened, [
    { what: 'storage', problem: /cannot be reached/ },
    { what: 'address', problem: /cannot be listened on \(EADDRNOTAVAIL\)/ },
  ])
  t.notMatch(JSON.stringify(shut.report), /s3cret/)
  t.match(shut, { code: 1, report: { outcome: 'nothing' } })

  const routed = {
    allow_networks: ['127.0.0.0/8'],
    hosts: { 'there.example': keys.origin, 'gone.example': NOTHING },
  }
  const routes = await check({ egress: routed })
  t.match(
    routes.opened.filter(({ what }) => what === 'route'),
    [{ place: `there.example at ${keys.origin}`, problem: undefined }, { problem: 'nothing listens there' }],
  )
  const server = await startServer(t)
  const sound = join(folder, 'sound')
  await mkdir(sound)
  const db = await openSqlite(join(sound, 'tributary.db'), { check: false, onProblem: t.fail })
  await db.schema.createTable('jobs').addColumn('due', 'integer').execute()
  await db.destroy()
  const beside = { listen: { port: Number(new URL(server.url).port) }, storage: { url: `file:${sound}` } }
  t.match((await check(beside)).opened, [
    { what: 'storage', place: sound, problem: undefined },
    { what: 'address', problem: undefined, note: /a server of Tributary/ },
  ])
  const damaged = join(folder, 'damaged')
  await mkdir(damaged)
  await writeFile(join(damaged, 'tributary.db'), 'no database at all, and long enough to be one'.repeat(100))
  const broken = {
    listen: { port: Number(new URL(keys.origin).port) },
    storage: { url: `file:${damaged}` },
  }
  t.match(await check(broken), {
    outcome: 'nothing',
    opened: [
      { what: 'storage', problem: /not a database|damaged/ },
      { what: 'address', problem: /another program listens there/ },
    ],
  })
  const twice = { keys: ['one', 'two'].map((id) => ({ id, token_sha256: 'ab'.repeat(32) })) }
  await writeFile(
    file,
    JSON.stringify({ callers: twice, listen: { host: '127.0.0.1:80', trusted_proxies: ['10.0.0.0/99'] } }),
  )
  const wrong = await runCommand(['check', '--config', file])
  t.match(wrong, { code: 3, err: /a token that no other key has/ })
  t.match(wrong.err, /listen\.trusted_proxies/)
})

test('check says in words why a database cannot be had', { skip: NO_POSTGRES }, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const url = new URL(storage.url)
  url.pathname = '/nothing_of_that_name'
  const config = parseConfig('test', JSON.stringify({ storage: { url: url.href } }), {})
  const { opened } = await checkConfig({
    ...{ config, clock: systemClock, random: Math.random, onProgress: () => {} },
  })
  t.match(opened[0], {
    what: 'storage',
    problem: /cannot be reached .*nothing_of_that_name/,
  })
})
