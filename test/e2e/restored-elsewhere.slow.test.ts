/** A backup of the database alone, made of a running server by the documented commands, ends what was open wherever it is restored. */
import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { activate, findings } from '../activation/support/crash-world.js'
import { TRADE_DESK } from '../activation/support/parts.js'
import { prepareTributary } from '../activation/support/tributary-child.js'
import { openLive } from '../activation/support/world.js'
import { startReceiver } from '../discovery/support/receiver.js'
import { postgresBinaries, restoreDump } from '../store/support/postgres.js'
import { bare, embedded, NO_POSTGRES, type Storage } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'

const TOKEN = 'a-buyer-key'
const KEY = 'a storage key of the tests, long enough'
const A_PERSON_MS = 600_000 // meridian's people work on a question for so long

/** `copy` makes the backup of the one and restores it as the other. */
async function restores(t: Test, from: Storage, to: Storage, copy: () => void): Promise<void> {
  t.setTimeout(300_000)
  let ahead = 0
  const sandbox = await startSandbox({ signals: 48, now: () => Date.now() + ahead })
  t.teardown(() => sandbox.close())
  const { northwind, meridian } = sandbox.agents
  let isTaken = false
  const { url: hook, received } = await startReceiver(t, () => (isTaken ? 200 : 503))
  const start = (url: string) => {
    const tributary = prepareTributary()
    t.teardown(tributary.kill)
    const configuration = {
      listen: { port: 0 },
      upstreams: [northwind, meridian].map((agent, index) => ({ id: `agent-${index}`, url: agent.url })),
      egress: { hosts: sandbox.hosts, webhook_networks: ['127.0.0.0/8'] },
      callers: {
        keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex'), destinations: [TRADE_DESK] }],
      },
      storage: { url, key: KEY },
    }
    return tributary.run(JSON.stringify(configuration), TOKEN)
  }
  const child = start(from.url)
  await child.opened()
  const ask = async (operation_id: string) => {
    const answer = await child.call('mcp', 'get_signals', {
      ...{ signal_spec: 'mortgage seekers', time_budget: { interval: 60, unit: 'seconds' } },
      push_notification_config: {
        ...{ url: hook, operation_id },
        authentication: { schemes: ['Bearer'], credentials: 'a-bearer-token-of-at-least-32-characters' },
      },
    })
    t.equal(answer.status, 'submitted')
    return answer.task_id as string
  }
  const [atMeridian] = await findings(child, 'agent-1')
  const [atNorthwind] = await findings(child, 'agent-0')

  meridian.briefTakes(100)
  const answered = await ask('notice')
  await until('its notice is refused', () => received.length > 0)
  const submitted = await child.call('mcp', 'activate_signal', activate(atMeridian as object))
  t.equal(submitted.status, 'submitted')
  await child.hold('intended')
  const call = activate(atNorthwind as object)
  const lost = child.call('a2a', 'activate_signal', call).catch(() => {})
  await child.held(1)
  meridian.briefTakes(A_PERSON_MS)
  const question = await ask('question')
  copy()
  await child.kill()
  await lost

  isTaken = true
  received.length = 0
  ahead = A_PERSON_MS // its work is done, and whoever asks it afresh waits for another person
  const store = await openLive(t, to.url, { whileInUse: true, keys: [KEY] })
  const kinds = new Set((await store.work.backlog()).map(({ kind }) => kind))
  t.same(kinds, new Set(['call', 'upstream_task', 'question', 'notice']), 'each kind is open in the backup')
  t.equal(northwind.activations(), 0)
  if (to.isShared) await store.jobs.endLeases() // as time does
  const restored = start(to.url)
  await restored.opened()
  const taskOf = (task_id: string) =>
    restored.call('mcp', 'get_task_status', { task_id, include_result: true })
  await until(
    'nothing is open',
    async () => {
      await taskOf(submitted.task_id)
      return (await store.work.backlog()).length === 0
    },
    120_000,
  )
  t.match(await taskOf(submitted.task_id), {
    status: 'completed',
    result: { deployments: [{ is_live: true }] },
  })
  t.match(await taskOf(answered), { status: 'completed' })
  const { status, result } = await taskOf(question)
  t.equal(status, 'completed')
  t.match(
    JSON.stringify(result.ext.tributary.upstreams),
    /agent-1[^}]*"answered"/,
    'by whom it was asked first',
  )
  const told = new Set(received.map(({ body }) => JSON.parse(body).operation_id))
  t.same(told, new Set(['notice', 'question']))
  t.match(await restored.call('mcp', 'activate_signal', call), { status: 'completed', replayed: true })
  t.equal(northwind.activations(), 1)
  const ledger = await store.ledger.query({}, 10)
  t.same(
    ledger.map(({ outcome }) => outcome),
    ['completed', 'completed'],
  )
}

test('SQLite: a copy of a running server`s database', async (t) => {
  const [from, to] = [await embedded(t), await embedded(t)]
  const fileOf = ({ url }: Storage) => join(url.slice('file:'.length), 'tributary.db')
  await restores(t, from, to, () => {
    mkdirSync(to.url.slice('file:'.length), { recursive: true })
    execFileSync(process.execPath, ['-e', COPY, fileOf(from), fileOf(to)], { stdio: 'pipe' })
  })
})

/** What `sqlite3 FROM "VACUUM INTO 'TO'"` does, which not every machine has. */
const COPY = `const Database = require('libsql')
const [from, to] = process.argv.slice(1)
new Database(from).exec("VACUUM INTO '" + to + "'")`

test('PostgreSQL: pg_dump without blobs, and pg_restore', { skip: NO_POSTGRES }, async (t) => {
  const [from, to] = [await bare(t), await bare(t)]
  const binaries = postgresBinaries()
  if (!from || !to || !binaries) return
  const folder = (await embedded(t)).url.slice('file:'.length)
  await restores(t, from, to, () => restoreDump(binaries, from.url, to.url, join(folder, 'backup.dump')))
})
