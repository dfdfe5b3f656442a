/**
 * The activation room of one process that can end at any step: from then on nothing it did is told to anybody, and nothing
 * more is done. Its storage can fail for a while, before or after it did what it was asked for.
 */
import { randomUUID } from 'node:crypto'
import { createActivation } from '../../../src/activation/activation.js'
import { CHECKPOINTS } from '../../../src/activation/delivery.js'
import type { Clock } from '../../../src/net/clock.js'
import { StorageUnavailable } from '../../../src/store/database/storage-work.js'
import { DEFAULT_RETENTION } from '../../../src/store/retention.js'
import type { Store } from '../../../src/store/store.js'
import type { Upstreams } from '../../../src/upstreams/upstreams.js'
import { withTasks } from './asked.js'
import { KINDS, type Kind } from './scripted-agents.js'

/** Where a process ends: at a step of an activation, or when the upstream has been asked. */
export const STEPS = [...CHECKPOINTS, 'asked'] as const
export type Step = (typeof STEPS)[number]

/** After `skip` operations of the storage, `count` fail: `after` they did what they were asked for, or before. */
export type Trouble = { skip: number; count: number; after: boolean }

export type RoomOptions = {
  store: Store
  clock: Clock
  upstreams: Upstreams
  agentUrlOf: (kind: Kind) => string
}

/** A signal a kind of agent. */
export const handleOf = (kind: Kind) => `sig_${kind.padEnd(22, 'A')}`

export function openMortalRoom({ store, clock, upstreams, agentUrlOf }: RoomOptions) {
  const underway = new Set<Promise<unknown>>()
  let isDead = false
  let endsAt: Step | undefined
  let trouble: Trouble | undefined
  let tellDeath = () => {}
  const death = new Promise<void>((resolve) => {
    tellDeath = resolve
  })

  function die(): void {
    isDead = true
    tellDeath()
  }

  const never = <T>() => new Promise<T>(() => {})

  async function toldWhileAlive<T>(work: () => Promise<T>): Promise<T> {
    if (isDead) return await never()
    const done = work()
    underway.add(done)
    try {
      const value = await done
      if (!isDead) return value
    } catch (error) {
      if (!isDead) throw error
    } finally {
      underway.delete(done)
    }
    return await never()
  }

  async function inTrouble<T>(work: () => Promise<T>): Promise<T> {
    if (!trouble || trouble.skip-- > 0) return await work()
    const { after, count } = trouble
    trouble = count > 1 ? { ...trouble, skip: 0, count: count - 1 } : undefined
    if (after) await work()
    throw new StorageUnavailable('the model says so')
  }

  const operation = <T>(work: () => Promise<T>) => toldWhileAlive(() => inTrouble(work))

  function mortal<T extends object>(repository: T): T {
    const methods = Object.entries(repository).map(([name, method]) => [
      name,
      (...args: unknown[]) => operation(() => (method as (...all: unknown[]) => Promise<unknown>)(...args)),
    ])
    return Object.fromEntries(methods) as T
  }

  const { idempotency, jobs, ledger, tasks } = store
  const mine: Store = {
    ...store,
    idempotency: mortal(idempotency),
    jobs: mortal(jobs),
    ledger: mortal(ledger),
    tasks: mortal(tasks),
    write: (work) => operation(() => store.write(work)),
    undertake: (undertaking) => operation(() => store.undertake(undertaking)),
    conclude: (ending) => operation(() => store.conclude(ending)),
  }

  const activation = withTasks(
    createActivation({
      retention: DEFAULT_RETENTION,
      ...{ store: mine, clock, newId: randomUUID },
      resolve(handle) {
        const kind = KINDS.find((one) => handle.startsWith(handleOf(one)))
        if (!kind) return undefined
        const [agentUrl, offer] = [agentUrlOf(kind), `${handleOf(kind)}.12345678`]
        const deployments = ['platform:the-trade-desk', 'platform:dv360']
        const at = { upstream: kind, agentUrl, scope: 'public', handle: offer, segmentId: `${kind}_segment` }
        const offers = [{ ...at, options: [], deployments, live: [], anywhere: false }]
        const ref = {
          scope: 'data_provider',
          data_provider_domain: 'house.example',
          signal_id: kind,
        } as const
        return { handle: handleOf(kind), name: `${kind} signal`, ref, offers }
      },
      upstreamAt: (agentUrl) => agentUrl, // in no roster: called as those that left
      hasOwnCredential: () => false,
      call: (agentUrl, task, args, { caller: _, seenAs: __, ...context }) =>
        toldWhileAlive(() => {
          const answer = upstreams.call(agentUrl, task, args, context)
          if (endsAt === 'asked' && task === 'activate_signal') die()
          return answer
        }),
      refreshSoon: () => {},
      onProblem: () => {},
      reached(step) {
        if (step === endsAt) die()
        return isDead ? never() : undefined
      },
    }),
  )

  return {
    activation,
    store: mine,
    /** Resolves when it ends. */
    death,
    isDead: () => isDead,
    isBusy: () => underway.size > 0,
    /** Ends at the next such step. */
    endAt(step: Step): void {
      endsAt = step
    },
    suffer(what: Trouble | undefined): void {
      trouble = what && { ...what }
    },
    /** Ends now; resolves when what was on its way has arrived, which nobody is told. */
    async end(): Promise<void> {
      die()
      while (underway.size > 0) await Promise.allSettled(underway)
    },
  }
}

export type MortalRoom = ReturnType<typeof openMortalRoom>
