import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { BUYER, digest, OPERATOR, startConsoleWorld } from '../console/support/console-world.js'
import { startCommand } from '../support/command.js'
import { MAIN } from '../support/program.js'

type Ended = { code: number; out: string; err: string }

/** A line in a shell, where `tributary` is the command. */
function shell(line: string, environment: Record<string, string> = {}): Promise<Ended> {
  const env = { ...process.env, ...environment }
  const script = `set -o pipefail; tributary() { '${process.execPath}' '${MAIN}' "$@"; }; ${line}`
  return new Promise((resolve) => {
    execFile('bash', ['-c', script], { env }, (error, out, err) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    )
  })
}

test('commands in pipes and shells', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { url } = world.federation
  const at = `--url ${url} --token ${BUYER}`

  await t.test('a pipe that is closed early ends the command, without a word of that', async (t) => {
    const { code, out, err } = await shell(`tributary feed --json ${at} | head -n 1`)
    t.equal(code, 0)
    t.equal(out.trim().split('\n').length, 1)
    t.equal(err.replace(/^tributary: incomplete .*\n/gm, ''), '', 'but for what the feed lacks')
  })

  await t.test('values are whole off a terminal, and as wide as COLUMNS where it is set', async (t) => {
    const whole = await shell(`tributary feed ${at}`)
    t.notMatch(whole.out, /…/)
    const narrow = await shell(`tributary feed ${at}`, { COLUMNS: '70' })
    const table = narrow.out.slice(0, narrow.out.indexOf('\n\n')).split('\n')
    t.ok(table.every((line) => line.length <= 70))
    t.match(narrow.out, /…/)
  })

  await t.test('an address is written in one way everywhere, with or without /mcp', async (t) => {
    for (const given of [`${url}/`, `${url}/mcp`]) {
      t.equal((await shell(`tributary feed -n 1 --token ${BUYER} --url ${given}`)).code, 0, given)
      t.equal(
        (await shell(`tributary explain signals.northwind.example --token ${OPERATOR} --url ${given}`)).code,
        0,
      )
    }
    const wrong = await shell('tributary explain x --url nonsense')
    t.equal(wrong.code, 2)
    t.match(wrong.err, /--url or TRIBUTARY_URL: expected an http or https url/)
  })

  await t.test(
    'where the server is may come from the environment, and what is given is preferred',
    async (t) => {
      const line = `tributary feed -n 1 --token ${BUYER}`
      t.match(await shell(line, { TRIBUTARY_URL: url }), { code: 0, out: / signals?, / })
      t.equal((await shell(`${line} --url ${url}`, { TRIBUTARY_URL: 'nonsense' })).code, 0)
      t.match(await shell(line, { TRIBUTARY_URL: 'nonsense' }), { code: 2, err: /TRIBUTARY_URL: expected/ })
    },
  )

  await t.test('audit says that there is nothing, and lets no name write to the terminal', async (t) => {
    const as = `--url ${url} --token ${OPERATOR}`
    t.match(await shell(`tributary audit ${as}`), { code: 0, out: 'no operator has done anything yet\n' })
    t.equal((await shell(`tributary audit --json ${as}`)).out, '')
    t.equal((await shell(`tributary exclude $'a\\e[2Jb' ${as}`)).code, 1)
    const { out } = await shell(`tributary audit ${as}`)
    t.match(out, /exclude-upstream {2}a.*b {2}unknown/)
    t.notMatch(out, '\u001b')
  })

  await t.test('who asks a server needs none of its secrets', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'tributary-shell-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'tributary.yaml')
    const { port } = new URL(url)
    const text = `listen: { port: ${port}, public_url: "https://signals.acme.example" }\nstorage: { key: "\${NOWHERE}", url: "file:./x" }\n`
    await writeFile(file, text)
    const { code, out } = await shell(`tributary feed -n 1 --config ${file} --token ${BUYER}`)
    t.equal(code, 0, 'it asks the listener on this machine, not the public address')
    t.match(out, /signals/)
    const strict = await shell(`tributary check --config ${file}`)
    t.equal(strict.code, 3)
    t.match(strict.err, /NOWHERE/)
  })

  await t.test('a buyer asks and activates', async (t) => {
    const { out } = await shell(`tributary ask --json -n 20 ${at} people who buy cars`)
    const rows = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    t.ok(rows.length > 0)
    const table = await shell(`tributary ask -n 3 ${at} people who buy cars`)
    t.match(table.out, rows[0].signal_agent_segment_id)
    const offers = rows.flatMap((row) =>
      row.ext.tributary.offers.map((offer: { handle: string; deployments: string[] }) => ({ row, offer })),
    )
    const open = (where: string) => where.startsWith('platform:') && !where.includes('#')
    const there = offers.find(({ offer }) => offer.deployments.some(open))
    const where = there.offer.deployments.find(open)
    const { pricing_option_id: option } = there.row.pricing_options.find(
      (one: { pricing_option_id: string }) => one.pricing_option_id.startsWith(there.offer.handle),
    )
    const line = `tributary activate ${there.offer.handle} -d ${where} --option ${option} ${at}`
    const done = await shell(line)
    t.equal(done.code, 0, done.err)
    t.match(done.out, /^(completed|working): .*\n$|^submitted: .*\ntask \S+\n$/)
    t.match(done.err, /^key \S+\n$/)
    t.equal((await shell(`tributary activate nothing -d platform:x ${at}`)).code, 1)
    t.match((await shell(`tributary activate x -d nowhere ${at}`)).err, /expected platform:NAME or agent:URL/)
  })

  await t.test('a key is made, and its digest is that of the configuration', async (t) => {
    const made = JSON.parse((await shell('tributary key --json')).out)
    t.equal(made.token_sha256, digest(made.key))
    t.equal(
      (await shell('printf %s a-key | tributary key --stdin')).out,
      `token_sha256: "${digest('a-key')}"\n`,
    )
    t.equal((await shell('printf "" | tributary key --stdin')).code, 2)
  })

  await t.test('a slip of the pen is answered with what was meant', async (t) => {
    t.match((await shell('tributary expalin x')).err, /Did you mean explain\?/)
    t.match((await shell('tributary --version')).out, /^\d+\.\d+\.\d+\n$/)
  })
})

test('serve listens on the port that it is told', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-shell-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'tributary.yaml')
  await writeFile(file, `listen: { port: 1 }\nstorage: { url: "file:${folder}/data" }\n`)
  const server = startCommand(['serve', '--config', file, '--port', '0'])
  t.teardown(() => {
    server.process.kill('SIGTERM')
    return server.finished
  })
  const [, port] = await server.printed(/http:\/\/127\.0\.0\.1:(\d+)\/mcp/)
  t.not(port, '1')
  t.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200)
})
