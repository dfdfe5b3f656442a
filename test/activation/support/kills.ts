/**
 * A whole Tributary that is killed over and over while callers activate and deactivate, on a database that stalls: each
 * process is a real one and ends by kill -9 at some moment, PostgreSQL's processes stand still for a while, SQLite's file
 * is locked by somebody else, and of two replicas one stands still with the locks that it holds. In the end each wish was carried out once, and each answer that was given stands.
 */
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import Database from 'libsql'
import pg from 'pg'
import type { Test } from 'tap'
import type { Storage } from '../../store/support/storages.js'
import { randomFrom } from '../../support/random-from.js'
import { activate, deactivate, findings, type Request, startCrashWorld } from './crash-world.js'
import type { Child, Fields } from './tributary-child.js'

const SEGMENTS = 6
const WISHES = 12 // of one round, all at once
const LONGEST_LIFE_MS = 1_500 // of a process from its first wish on
const LONGEST_STALL_MS = 1_500 // longer than SQLite waits for a lock
const ENDED_BY_MS = 60_000

/** All of PostgreSQL's processes that work for the database stand still, as on a disk or a network that does not answer. */
async function stallPostgres(url: string, ms: number): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ pid: number }>(
    'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  await client.end()
  const signal = (name: NodeJS.Signals) => {
    for (const { pid } of rows) {
      try {
        process.kill(pid, name)
      } catch {
        // It ended with the process that it worked for.
      }
    }
  }
  signal('SIGSTOP')
  await wait(ms)
  signal('SIGCONT')
}

/** Somebody else writes to the file and takes long over it. */
async function lockSqlite(folder: string, ms: number): Promise<void> {
  const db = new Database(join(folder, 'tributary.db'), { timeout: 5_000 })
  try {
    db.exec('begin immediate')
    await wait(ms)
    db.exec('rollback')
  } finally {
    db.close()
  }
}

/** What a caller is told for good: it was done; a later request took its place, or nobody knows; there was nothing to do. */
type End = 'done' | 'not known' | 'nothing to do'
type Wish = { request: Request; end?: End; told?: Fields }

function endOf({ status, adcp_error: error }: Fields): End | undefined {
  if (status === 'completed') return 'done'
  if (error?.code === 'REFERENCE_NOT_FOUND') return 'nothing to do'
  return error?.code === 'INVALID_REQUEST' ? 'not known' : undefined
}

/** So many rounds, each of one process, or of two replicas. Throws what is wrong. */
export async function killOverAndOver(
  t: Test,
  storage: Storage,
  rounds: number,
  seed: number,
): Promise<void> {
  const random = randomFrom(seed)
  const replicas = storage.isShared ? 2 : 1
  const crashWorld = await startCrashWorld(t, storage, replicas * rounds + 1)
  const wishes: Wish[] = []
  let isOn = false

  const stall = (ms: number) =>
    storage.isShared ? stallPostgres(storage.url, ms) : lockSqlite(storage.url.slice('file:'.length), ms)

  async function send(child: Child, wish: Wish): Promise<void> {
    const transport = random() < 0.5 ? 'mcp' : 'a2a'
    const said = await child.call(transport, 'activate_signal', wish.request).catch(() => undefined)
    const end = said && endOf(said)
    if (!end) return // not told for good: it is asked again
    const isOther = wish.told && JSON.stringify(wish.told.deployments) !== JSON.stringify(said.deployments)
    if (wish.end && (wish.end !== end || isOther)) {
      throw new Error(`an answer changed: ${JSON.stringify([wish.told, said])}`)
    }
    wish.end = end
    wish.told = said
  }

  for (let round = 0; round < rounds; round += 1) {
    const children = Array.from({ length: replicas }, () => crashWorld.start())
    await Promise.all(children.map((child) => child.opened()))
    const one = () => children[Math.floor(random() * replicas)] as Child
    const found = (await findings(one(), 'northwind')).slice(0, SEGMENTS)
    isOn = !isOn
    const fresh = Array.from({ length: WISHES }, (_, at): Wish => {
      const choice = found[at % found.length] as Record<string, unknown>
      return { request: isOn ? activate(choice) : deactivate(choice) }
    })
    wishes.push(...fresh)
    const old = wishes.filter(({ end }) => end !== 'nothing to do' && random() < 0.2)
    const underway = [...fresh, ...old].map((wish) => send(one(), wish))
    const life = wait(random() * LONGEST_LIFE_MS)
    const frozen = random() < 0.5 ? one().freeze(random() * LONGEST_STALL_MS) : undefined
    if (random() < 0.5) await stall(random() * LONGEST_STALL_MS)
    await Promise.all([life, frozen])
    await Promise.all(children.map((child) => child.kill()))
    await Promise.all(underway)
    await crashWorld.afterDeath()
  }

  const last = crashWorld.start()
  await last.opened()
  for (const end = Date.now() + ENDED_BY_MS; ; await wait(100)) {
    await Promise.all(wishes.filter((one) => !one.end).map((wish) => send(last, wish)))
    if (wishes.every((one) => one.end)) break
    if (Date.now() > end) throw new Error('not every wish comes to an end')
  }
  await last.kill()
  const ledger = await crashWorld.exported()
  const count = (end: End) => wishes.filter((one) => one.end === end).length
  const completed = ledger.filter(({ outcome }) => outcome === 'completed').length
  const told = `told ${count('done')} done and ${count('not known')} not known`
  if (completed !== count('done') || ledger.length !== completed + count('not known')) {
    throw new Error(`${told}, the ledger has ${completed} completed of ${ledger.length}`)
  }
  const done = crashWorld.done()
  if (done < completed || done > ledger.length) throw new Error(`${told}, the agent did ${done}`)
}
