/**
 * What must hold of activations whatever happens in whatever order: callers, agents, processes that end, storages that fail
 * and come back from a backup, time that passes. In the end each agent did what was wished once or not at all, the ledger
 * says what the agents' own books say, or that it does not know, and nothing that was acknowledged is lost.
 */
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { endedAmong } from '../../../src/activation/holders.js'
import type { Answer } from '../../../src/adcp/answer.js'
import type { Caller } from '../../../src/adcp/caller.js'
import { createEgress } from '../../../src/net/egress.js'
import type { Entry } from '../../../src/store/records/ledger.js'
import { isFinal } from '../../../src/store/records/tasks.js'
import { createForgetting, DEFAULT_RETENTION } from '../../../src/store/retention.js'
import type { Store } from '../../../src/store/store.js'
import { createUpstreams } from '../../../src/upstreams/upstreams.js'
import { createManualClock } from '../../support/upstream-clock.js'
import { handleOf, type MortalRoom, openMortalRoom, STEPS, type Step, type Trouble } from './mortal-room.js'
import { buyer, other, rosterOf } from './parts.js'
import {
  ENDS,
  type End,
  KINDS,
  type Kind,
  MANNERS,
  type Manner,
  startScriptedAgents,
} from './scripted-agents.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const TIMEOUT_MS = 150 // of real time: what an agent that hangs costs
const REPEATED_FOR_MS = 20 * HOUR // later a key may stand for a new wish

const CALLERS: readonly Caller[] = [buyer, other]
const PLACES = ['the-trade-desk', 'dv360'] as const

const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example' }
const NOVA = { ...ACME, brand: { domain: 'nova.example' } }

type Ask = {
  at: Kind
  by: number
  isOn: boolean
  forAccount?: boolean
  places: readonly (typeof PLACES)[number][]
  room: number
}
export type Command =
  /** At once; `inOrder`: each as soon as the one before it is written down. */
  | { kind: 'ask'; asks: readonly Ask[]; inOrder: boolean }
  | { kind: 'repeat'; which: number; room: number }
  | { kind: 'manners'; at: Kind; manners: readonly Manner[] }
  | { kind: 'tasks go on'; at: Kind; end: End }
  | { kind: 'poll'; which: number; room: number }
  | { kind: 'trouble'; room: number; trouble: Trouble }
  | { kind: 'crash'; room: number; at?: Step }
  | { kind: 'time passes'; ms: number }
  /** The configuration is read again: ids have moved by so many places, and credentials are other ones. */
  | { kind: 'reload'; moved: number; isListed: boolean }
  /** The caller declares its account, or closes it. */
  | { kind: 'sync'; by: number; isOpen: boolean; room: number }
  | { kind: 'backup' }
  | { kind: 'restore' }

type Wish = Ask & {
  name: string
  request: Record<string, unknown> & { idempotency_key: string }
  madeAt: number
  /** What its caller was told for good. */
  told?: Extract<Answer, { kind: 'answer' }>
  /** It was written down: the answer said so. */
  isPromised?: boolean
  /** A backup that did not know that it was sent was restored after it was: nothing can know better then. */
  wasForgotten?: boolean
}

const room = fc.nat(1)
const at = fc.constantFrom(...KINDS)
const ask = fc.record({
  ...{ at, room, by: fc.nat(CALLERS.length - 1) },
  isOn: fc.oneof({ arbitrary: fc.constant(true), weight: 3 }, { arbitrary: fc.constant(false), weight: 2 }),
  places: fc.subarray([...PLACES], { minLength: 1 }),
  forAccount: fc.boolean(),
})
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ kind: fc.constant('ask'), inOrder: fc.boolean() },
      asks: fc.array(ask, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('repeat'), which: fc.nat(30), room }) },
  {
    weight: 5,
    arbitrary: fc.record({
      ...{ kind: fc.constant('manners'), at },
      manners: fc.array(fc.constantFrom(...MANNERS), { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('tasks go on'), at, end: fc.constantFrom(...ENDS) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('poll'), which: fc.nat(30), room }) },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ kind: fc.constant('trouble'), room },
      trouble: fc.record({ skip: fc.nat(9), count: fc.integer({ min: 1, max: 4 }), after: fc.boolean() }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record(
      { kind: fc.constant('crash'), room, at: fc.constantFrom(...STEPS) },
      { requiredKeys: ['kind', 'room'] },
    ),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('time passes'),
      ms: fc.constantFrom(SECOND, 20 * SECOND, 2 * MINUTE, 11 * MINUTE, 3 * HOUR, 21 * HOUR),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('reload'), moved: fc.nat(2), isListed: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      ...{ kind: fc.constant('sync'), room },
      ...{ by: fc.nat(CALLERS.length - 1), isOpen: fc.boolean() },
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('backup') }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restore') }) },
) as fc.Arbitrary<Command>

/** Of one run, at most so many. */
export const commandsOfOneRun = (most: number) =>
  fc.array(command, { minLength: 4, maxLength: most, size: 'max' })

const TABLES = ['idempotency', 'jobs', 'activations', 'tasks'] as const
type Backup = {
  tables: Map<(typeof TABLES)[number], object[]>
  /** Those that were written down by then, and whether they had been sent, as far as was known. */
  wishes: Map<Wish, Pick<Wish, 'told' | 'isPromised'> & { wasSent: boolean }>
}

type BackedUpJob = { key: string; due: number | null; attempts: number; data: string }

/** Of its attempts those that surely reached nobody. */
const unsentOf = ({ data }: BackedUpJob) => (JSON.parse(data) as { unsent?: number }).unsent ?? 0

export type GroundOptions = {
  /** Opens the storage again, as the next process does. */
  open: (now: () => number) => Promise<Store>
  /** Several processes at once, whose leases end on the database's own clock. */
  isShared: boolean
}

/** What all runs stand on, one after the other. */
export async function startModelGround({ open, isShared }: GroundOptions) {
  const { clock, advance: advanceClock } = createManualClock()
  const scripted = await startScriptedAgents()
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const roster = rosterOf(KINDS.map((id) => ({ id, url: scripted.urlOf(id), protocol: 'mcp' as const })))
  let store = await open(clock.now)
  let reloads = 0
  const config = { ...roster, defaults: { ...roster.defaults, timeoutMs: TIMEOUT_MS } }
  const upstreams = createUpstreams({
    config,
    ...{ send: egress.send, blobs: store.blobs, clock, random: Math.random },
    ...{ referencesFor: () => [], onTrouble: () => {} },
  })

  /** Leases and pauses of a shared storage go by its own clock. */
  async function passTime(ms: number): Promise<void> {
    advanceClock(ms)
    if (isShared) {
      await store.db
        .updateTable('jobs')
        .set((eb) => ({ due: eb('due', '-', ms) }))
        .where('due', 'is not', null)
        .execute()
    }
  }

  function reload(moved: number, isListed: boolean): void {
    const token = `token-${++reloads}`
    const statics = KINDS.map((id, at) => ({
      ...{ id, url: scripted.urlOf(KINDS[(at + moved) % KINDS.length] as Kind), protocol: 'mcp' as const },
      auth: { type: 'bearer' as const, token },
    }))
    upstreams.reconfigure({ ...config, statics: isListed ? statics : [] })
  }

  async function wipe(): Promise<void> {
    for (const table of [...TABLES, 'accounts'] as const) await store.db.deleteFrom(table).execute()
  }

  /** One sequence of commands; throws what is wrong in the end, or on the way. */
  async function run(commands: readonly Command[]): Promise<void> {
    const rooms: MortalRoom[] = []
    const wishes: Wish[] = []
    const lost = new Set<Wish>()
    let backup: Backup | undefined
    let asked = 0

    const openRoom = () =>
      openMortalRoom({ store, clock, upstreams, agentUrlOf: (kind) => scripted.urlOf(kind) })
    const roomAt = (index: number) => rooms[index % rooms.length] as MortalRoom

    /** Lets the clock go on until the work is done: who is asked and says nothing is given up by it. */
    async function overTime<T>(work: Promise<T>): Promise<T> {
      let isOver = false
      const ended = work.finally(() => {
        isOver = true
      })
      ended.catch(() => {})
      while (!isOver) {
        const isBusy = rooms.some((one) => one.isBusy())
        await (isBusy ? wait(1) : nextTurn())
        if (!isOver) advanceClock(isBusy ? 10 : 1_000)
      }
      return await ended
    }

    /** What becomes of work; undefined when its process ended first. */
    const result = <T>(where: MortalRoom, work: Promise<T>): Promise<T | undefined> =>
      overTime(Promise.race([work, where.death.then(() => undefined)]))

    async function revive(): Promise<void> {
      for (const [index, one] of rooms.entries()) {
        if (!one.isDead()) continue
        await overTime(one.end())
        if (!isShared) {
          await store.close()
          store = await open(clock.now)
        }
        rooms[index] = openRoom()
      }
    }

    async function send(wish: Wish, index: number): Promise<void> {
      const where = roomAt(index)
      const by = CALLERS[wish.by] as Caller
      const before = wish.told
      const answer = await result(
        where,
        where.activation.activate(wish.request as never, by, clock.now() + 30 * SECOND),
      )
      if (!answer) return
      if (answer.kind !== 'answer') {
        if (/did not answer/.test(answer.error.message)) wish.isPromised = true
        const isStorage = answer.error.code === 'SERVICE_UNAVAILABLE'
        if (before && !isStorage)
          throw new Error(`${wish.name} had an answer, and now ${answer.error.message}`)
        return
      }
      if (before && JSON.stringify(before.fields) !== JSON.stringify(answer.fields)) {
        throw new Error(`${wish.name} is answered otherwise than before: ${JSON.stringify([before, answer])}`)
      }
      if (before && answer.replayed !== true) throw new Error(`${wish.name}: a replay must say so`)
      wish.told = answer
      wish.isPromised = true
    }

    /** Resolves when it is, or when it has an answer already. */
    async function isWrittenDown({ by, request }: Wish, answer: Promise<void>): Promise<void> {
      let isAnswered = false
      const end = () => {
        isAnswered = true
      }
      answer.then(end, end)
      const jobs = () => store.jobs.ofKey(CALLERS[by]?.id ?? '', request.idempotency_key)
      while (!isAnswered && (await jobs()).length === 0) await nextTurn()
    }

    function wishFor(given: Ask): Wish {
      const name = `wish_${++asked}`
      // An agent of before 3.0 is told nothing but the places, so they say which wish it is.
      const destinations =
        given.at === 'old'
          ? [{ type: 'platform', platform: PLACES[0], account: name }]
          : given.places.map((platform) => ({ type: 'platform', platform }))
      const wish: Wish = {
        ...{ ...given, name, madeAt: clock.now() },
        request: {
          idempotency_key: `key-${name}-${clock.now()}`,
          signal_agent_segment_id: handleOf(given.at),
          ...{ action: given.isOn ? 'activate' : 'deactivate', destinations, context: { wish: name } },
          ...(given.forAccount && given.at !== 'old' && { account: ACME }),
        },
      }
      wishes.push(wish)
      return wish
    }

    async function rounds(): Promise<void> {
      for (const one of rooms) {
        await result(one, one.activation.round())
        await result(
          one,
          createForgetting(one.store, DEFAULT_RETENTION, endedAmong)(clock.now()).catch(() => {}),
        )
      }
    }

    const deedsOf = ({ at, name }: Wish) => scripted.agents[at].deeds().filter(({ wish }) => wish === name)

    async function restore({ tables, wishes: known }: Backup): Promise<void> {
      for (const one of rooms) await overTime(one.end())
      await wipe()
      for (const [table, rows] of tables) {
        for (const row of rows)
          await store.db
            .insertInto(table)
            .values(row as never)
            .execute()
      }
      for (const wish of wishes) {
        const then = known.get(wish)
        if (!then) lost.add(wish)
        else if (!then.wasSent && deedsOf(wish).length > 0) wish.wasForgotten = true
        delete wish.told
        wish.isPromised = then?.isPromised ?? false
        if (then?.told) wish.told = then.told
      }
      await revive()
    }

    async function obey(one: Command): Promise<void> {
      if (one.kind === 'ask') {
        const answers: Promise<void>[] = []
        for (const each of one.asks) {
          const wish = wishFor(each)
          const answer = send(wish, each.room)
          answers.push(answer)
          if (one.inOrder) await isWrittenDown(wish, answer)
        }
        await Promise.all(answers)
      } else if (one.kind === 'repeat') {
        const wish = wishes[one.which % Math.max(1, wishes.length)]
        if (wish && !lost.has(wish) && clock.now() - wish.madeAt < REPEATED_FOR_MS) await send(wish, one.room)
      } else if (one.kind === 'manners') scripted.agents[one.at].manners.push(...one.manners)
      else if (one.kind === 'tasks go on') scripted.agents[one.at].endTasks(one.end)
      else if (one.kind === 'trouble') roomAt(one.room).suffer(one.trouble)
      else if (one.kind === 'crash') {
        if (one.at) roomAt(one.room).endAt(one.at)
        else await overTime(roomAt(one.room).end())
      } else if (one.kind === 'poll') {
        const tasks = wishes.filter(({ told }) => told?.fields.task_id !== undefined)
        const wish = tasks[one.which % Math.max(1, tasks.length)]
        const where = roomAt(one.room)
        const task_id = wish?.told?.fields.task_id as string
        const by = CALLERS[wish?.by ?? 0] as Caller
        const deadline = clock.now() + 30 * SECOND
        const said = wish && (await result(where, where.activation.taskStatus({ task_id }, by, deadline)))
        if (said?.kind === 'refused' && said.error.code !== 'SERVICE_UNAVAILABLE') {
          throw new Error(`the task of ${wish?.name} is not there: ${said.error.message}`)
        }
      } else if (one.kind === 'sync') {
        const idempotency_key = `sync-${clock.now()}-${++asked}`
        const accounts = [{ ...(one.isOpen ? ACME : NOVA), billing: 'operator' }]
        const request = { idempotency_key, accounts, delete_missing: true }
        const where = roomAt(one.room)
        await result(where, where.activation.syncAccounts(request as never, CALLERS[one.by] as Caller))
      } else if (one.kind === 'reload') reload(one.moved, one.isListed)
      else if (one.kind === 'time passes') {
        await passTime(one.ms)
        await rounds()
      } else if (one.kind === 'backup') {
        const tables: Backup['tables'] = new Map()
        for (const table of TABLES) tables.set(table, await store.db.selectFrom(table).selectAll().execute())
        const jobs = new Map((tables.get('jobs') as BackedUpJob[]).map((job) => [job.key, job]))
        const bound = new Set((tables.get('idempotency') as { key: string }[]).map(({ key }) => key))
        const known: Backup['wishes'] = new Map()
        for (const wish of wishes) {
          const { idempotency_key: key } = wish.request
          const job = bound.has(key) ? jobs.get(key) : undefined // a refused request frees its key
          if (job) known.set(wish, { ...wish, wasSent: job.due === null || job.attempts > unsentOf(job) })
        }
        backup = { tables, wishes: known }
      } else if (backup) await restore(backup)
      await revive()
    }

    /** Everything is well from now on, and time passes until nothing is open. */
    async function settle(): Promise<void> {
      for (const one of rooms) one.suffer(undefined)
      for (const kind of KINDS) scripted.agents[kind].manners.length = 0
      for (const ms of [20 * SECOND, MINUTE, MINUTE, 11 * MINUTE, HOUR, 8 * DAY, MINUTE]) {
        await passTime(ms)
        await rounds()
        await revive()
      }
      const open = await store.work.backlog()
      if (open.length > 0) throw new Error(`work is left for ever: ${JSON.stringify(open)}`)
    }

    async function entriesOf({ by, request }: Wish): Promise<Entry[]> {
      const jobs = await store.jobs.ofKey(CALLERS[by]?.id ?? '', request.idempotency_key)
      const entries = await Promise.all(jobs.map(({ id }) => store.ledger.get(id)))
      return entries.filter((entry) => entry !== undefined)
    }

    /** What its agent's books say against what was said of it here. */
    async function checkWish(wish: Wish): Promise<void> {
      const deeds = scripted.agents[wish.at].deeds()
      const done = deedsOf(wish).length
      const isMisused = scripted.agents[wish.at].misused().includes(wish.name)
      if (isMisused && !wish.wasForgotten) throw new Error(`the key of ${wish.name} came with two requests`)
      if (done > (wish.wasForgotten ? 2 : 1)) throw new Error(`${wish.name} was carried out ${done} times`)
      if (lost.has(wish)) return
      const entries = await entriesOf(wish)
      const outcomes = entries.map(({ outcome }) => outcome)
      const wrong = (what: string) =>
        new Error(`${wish.name} ${what}: ledger ${outcomes.join() || 'empty'}, done ${done}`)
      if (wish.isPromised && entries.length === 0) throw wrong('is lost')
      if (outcomes.some((one) => one === 'pending' || one === 'submitted')) throw wrong('never ends')
      if (done === 1 && entries.length === 0) throw wrong('was done and never written down')
      if (done === 1 && outcomes.every((one) => one === 'failed')) throw wrong('was done all the same')
      // Where a repetition would not be recognised, what is live there decides: somebody made it so.
      const isThere = (place: string) =>
        deeds.some(({ isOn, destinations }) => isOn && destinations.some((one) => one.platform === place))
      const isUnfounded = wish.isOn && done === 0 && !wish.places.every(isThere)
      if (isUnfounded && outcomes.includes('completed')) throw wrong('was not done')
      const { told } = wish
      if (!told) return
      const taskId = told.fields.task_id as string | undefined
      if (taskId === undefined) {
        if (!outcomes.includes('completed')) throw wrong('was told as completed')
        return
      }
      const task = await store.tasks.get(CALLERS[wish.by]?.id ?? '', taskId)
      if (!task || !isFinal(task.status)) throw wrong(`has a task that is ${task?.status ?? 'not there'}`)
    }

    /** What is on at an agent is what the ledger says, where the ledger knows. */
    async function checkPlace(kind: Kind, platform: string, account?: typeof ACME): Promise<void> {
      const all = await store.ledger.ofSegment(scripted.urlOf(kind), `${kind}_segment`)
      const here = all.filter(
        ({ destinations, upstreamAccount }) =>
          (upstreamAccount !== undefined) === (account !== undefined) &&
          (destinations as { platform: string }[]).some((one) => one.platform === platform),
      )
      if (here.some(({ outcome }) => outcome === 'unknown')) return
      const counted = here.filter(({ outcome }) => outcome === 'completed')
      const newest = new Map<string, Entry>()
      for (const entry of counted) if (!newest.has(entry.caller)) newest.set(entry.caller, entry)
      const isOn = [...newest.values()].some(({ action }) => action === 'activate')
      const isLive = scripted.agents[kind].isLive({ platform }, account)
      if (isOn === isLive) return
      const history = here.map(({ caller, action, outcome, seq }) => [seq, caller, action, outcome].join(' '))
      throw new Error(
        `${platform} at ${kind} is ${isLive ? 'on' : 'off'}, the ledger says: ${history.join('; ')}`,
      )
    }

    scripted.forget()
    await wipe()
    for (let count = isShared ? 2 : 1; count > 0; count -= 1) rooms.push(openRoom())
    try {
      for (const one of commands) await obey(one)
      await settle()
      for (const wish of wishes) await checkWish(wish)
      if (lost.size > 0) return
      for (const kind of ['keyed', 'plain'] as const) {
        for (const place of PLACES) for (const one of [undefined, ACME]) await checkPlace(kind, place, one)
      }
    } finally {
      for (const one of rooms) await overTime(one.end())
    }
  }

  return {
    run,
    async close(): Promise<void> {
      await upstreams.close()
      await egress.close()
      await scripted.close()
      await store.close()
    },
  }
}
