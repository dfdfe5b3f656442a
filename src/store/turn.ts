/**
 * Work that one process at a time does for all that share a storage, such as writing to subscribers. The process that has the turn
 * renews it; when it ends, another takes over within a lease.
 */
import type { Clock } from '../net/clock.js'
import { StorageUnavailable } from './database/storage-work.js'
import { HEARTBEAT_MS, type Held, type Jobs, LEASE_MS } from './jobs.js'

type TurnOptions = {
  /** The name of the work. */
  name: string
  jobs: Pick<Jobs, 'get' | 'add' | 'claim' | 'extend' | 'release'>
  clock: Clock
  /** Names this process. */
  owner: string
  /** Whether this process is one that may have it; asked at each heartbeat. Default: always. */
  mayHave?: () => boolean
  /** The turn is ours now; the returned function is called when it no longer is. */
  take(): () => Promise<void>
  onProblem(problem: string): void
}

/** Looks for the turn from `start` on, and calls `take` each time that this process gets it. */
export function createTurn(options: TurnOptions) {
  const { name, jobs, clock, owner, mayHave = () => true, take, onProblem } = options
  const hold = { owner, ms: LEASE_MS }
  let held: Held | undefined
  let saidAt = 0
  let giveUp: (() => Promise<void>) | undefined
  let cancel = () => {}
  let beating: Promise<void> | undefined
  let closed = false

  async function lose(): Promise<void> {
    held = undefined
    await giveUp?.()
    giveUp = undefined
  }

  /** Another process can take it at once. */
  async function giveBack(): Promise<void> {
    const last = held
    await lose()
    if (last) await jobs.release(last, 0).catch(() => false) // otherwise its lease ends by itself
  }

  async function claim(): Promise<void> {
    if (!(await jobs.get(name))) {
      await jobs.add({ id: name, kind: 'turn', lane: name, caller: '', data: {} }).catch((error: unknown) => {
        if (error instanceof StorageUnavailable) throw error // else another process has just written it
      })
    }
    held = await jobs.claim(name, hold)
    saidAt = clock.now()
    if (held && !closed) giveUp = take()
  }

  async function beat(): Promise<void> {
    try {
      const at = clock.now()
      if (!mayHave()) await giveBack()
      else if (!held) await claim()
      else if ((await jobs.extend([held], hold)).length > 0) saidAt = at
      else await lose()
    } catch (error) {
      onProblem(`the turn for ${name} could not be kept: ${error instanceof Error ? error.message : error}`)
      if (held && clock.now() - saidAt >= LEASE_MS) await lose()
    }
  }

  function go(): void {
    beating = beat().then(() => {
      if (!closed) cancel = clock.after(HEARTBEAT_MS, go)
    })
  }

  return {
    start: go,
    /** Resolves when it is known which process has the turn. */
    settled: async () => await beating,
    /** Gives the turn up, so that another process can take it at once. */
    async close(): Promise<void> {
      closed = true
      cancel()
      await beating
      await giveBack()
    },
  }
}
