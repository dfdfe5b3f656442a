/**
 * A scope that another process reads: loads what that process saves, and passes requests for an early reading on to it.
 */
import type { UpstreamStatus } from '../agent/status.js'
import type { HeldSlice } from './mirror.js'
import type { Hurry, Reading, Readings } from './readings.js'
import type { Key } from './scope-setting.js'
import type { SliceStore } from './slice-store.js'

/** How a scope stands with whoever reads it. */
type Standing = {
  answered: boolean
  failures: number
  problem: UpstreamStatus['problem']
  nextAttemptAt: number | undefined
}

type FollowingOptions = {
  key(): Key
  store: Pick<SliceStore, 'follows'>
  readings: Readings
  /** Whether this process reads the scope itself: it then knows its own findings. */
  isReader(): boolean
  /** What is saved. Never rejects. */
  load(): Promise<HeldSlice | undefined>
  held(): HeldSlice | undefined
  take(standing: Standing, held: HeldSlice | undefined): void
  hurry: Readonly<Record<Hurry, () => void>>
}

/** Listens from now on, and loads rows when another process has saved some. */
export function createFollowing(options: FollowingOptions) {
  const { key, store, readings, isReader, load, held } = options
  let mark: string | undefined // names what another process saved and this one holds or is loading
  let loading: Promise<void> = Promise.resolve()

  async function loadMarked(wanted: string, confirmedAt: number, standing: Standing): Promise<void> {
    const saved = await load()
    if (mark !== wanted || isReader()) return
    if (!saved) {
      mark = undefined // the next message about it tries again
      return
    }
    store.follows(key(), wanted)
    options.take(standing, { ...saved, confirmedAt })
  }

  function take({ slice, confirmedAt, ...told }: Reading): void {
    if (isReader()) return
    const { answered, failures, problem, nextAttemptAt } = told
    const standing = { answered, failures, problem, nextAttemptAt }
    const now = held()
    if (!now) mark = undefined
    if (confirmedAt === undefined) {
      options.take(standing, undefined)
      return
    }
    // Until its rows are loaded, this process cannot confirm them.
    if (now) options.take(standing, { ...now, confirmedAt: Math.max(now.confirmedAt, confirmedAt) })
    if (slice === undefined || slice === mark) return
    mark = slice
    loading = loading.then(() => loadMarked(slice, confirmedAt, standing))
  }

  const stopHearing = readings.hear(key(), {
    read: take,
    hurry(how) {
      if (isReader()) options.hurry[how]()
    },
  })

  return {
    take,
    /** Stops listening; resolves when nothing is being loaded. */
    async close(): Promise<void> {
      stopHearing()
      await loading
    },
  }
}
