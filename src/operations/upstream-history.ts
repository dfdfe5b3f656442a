/**
 * How each upstream was doing, kept in the storage for operators: a point a minute for six hours and a point an hour for thirty
 * days, in memory that is bounded by the number of points and of upstreams.
 */
import { tryParseJson } from '../adcp/json.js'
import { type Clock, pause } from '../net/clock.js'
import { inOwnTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions } from '../process/portions.js'
import type { Blobs } from '../upstreams/rows/storage.js'

const BLOB = 'console-history'
const LOOK_EVERY_MS = 10_000
const SAVE_EVERY_MS = 5 * 60_000
const MOST_UPSTREAMS = 500
const MEASURES = ['rows', 'published', 'ms', 'failing'] as const
/** Numbers in a point: its time, and one for each measure. */
const WIDTH = 1 + MEASURES.length

/** `points` of `stepMs` each: six hours of minutes, thirty days of hours. */
const SPANS = {
  hours: { stepMs: 60_000, points: 360 },
  days: { stepMs: 3_600_000, points: 720 },
} as const

export type Span = keyof typeof SPANS

export type Sample = {
  upstream: string
  /** Rows read, and of these published. */
  rows: number
  published: number
  /** How long its last answer took; undefined before the first. */
  ms: number | undefined
  /** Whether its last refresh failed. */
  failing: boolean
}

/** `at`: seconds since the epoch; null where nothing was measured. */
type Points = { step_seconds: number; at: number[] } & Record<(typeof MEASURES)[number], (number | null)[]>

type UpstreamHistoryOptions = {
  blobs: Blobs
  clock: Clock
  samples(): Promise<Iterable<Sample>>
  onTrouble(message: string): void
}

/** The last points of one span, oldest first; a step that is still going on is the last of them. */
type Series = number[][]

/** NaN where neither is known. */
function slowest(one = Number.NaN, other = Number.NaN): number {
  return Number.isNaN(one) || other > one ? other : one
}

function noteSample(
  series: Series,
  { stepMs, points }: { stepMs: number; points: number },
  now: number,
  sample: Sample,
) {
  const at = Math.floor(now / stepMs) * stepMs
  const last = series.at(-1)
  const isGoingOn = last?.[0] === at
  const ms = slowest(sample.ms, isGoingOn ? last?.[3] : undefined) // the slowest answer and any failure of the step count
  const failing = Number(sample.failing || (isGoingOn && last?.[4] === 1))
  const point = [at, sample.rows, sample.published, ms, failing]
  if (isGoingOn) series.pop()
  series.push(point)
  while (series.length > points) series.shift()
}

/** What was stored, and what was seen since then without knowing it. */
function joined(stored: Series, seen: Series = []): Series {
  const [[from] = [Number.POSITIVE_INFINITY]] = seen
  return [...stored.filter(([at = 0]) => at < (from as number)), ...seen]
}

function pack(series: Series): Uint8Array {
  return Buffer.from(Float64Array.from(series.flat()).buffer)
}

function unpack(bytes: Uint8Array): Series {
  const copy = Uint8Array.from(bytes)
  const numbers = new Float64Array(copy.buffer, 0, Math.floor(copy.byteLength / 8))
  const series: Series = []
  for (let at = 0; at + WIDTH <= numbers.length; at += WIDTH)
    series.push([...numbers.subarray(at, at + WIDTH)])
  return series
}

type Kept = Record<Span, Series>

/** The parts of the blob: the ids of the upstreams, then two series for each. */
function* packed(all: readonly (readonly [string, Kept])[]): InPortions<Uint8Array[]> {
  const meter = createMeter()
  const parts: Uint8Array[] = [Buffer.from(JSON.stringify(all.map(([id]) => id)))]
  for (const [, { hours, days }] of all) {
    parts.push(pack(hours), pack(days))
    meter.did(hours.length + days.length)
    if (meter.isDue()) yield
  }
  return parts
}

function* unpacked([names, ...parts]: readonly Uint8Array[]): InPortions<[string, Kept][]> {
  const meter = createMeter()
  const ids = names && tryParseJson(names)
  const found: [string, Kept][] = []
  if (!Array.isArray(ids) || parts.length !== ids.length * 2) return found
  for (const [at, id] of ids.entries()) {
    const [hours, days] = [parts[at * 2], parts[at * 2 + 1]]
    if (typeof id !== 'string' || !hours || !days) continue
    found.push([id, { hours: unpack(hours), days: unpack(days) }])
    meter.did((hours.length + days.length) / (WIDTH * 8))
    if (meter.isDue()) yield
  }
  return found
}

/** Follows all upstreams from `start` on. What cannot be loaded or saved is told to `onTrouble`, and the rest goes on. */
export function createUpstreamHistory({ blobs, clock, samples, onTrouble }: UpstreamHistoryOptions) {
  const known = new Map<string, Kept>()
  let closed = false
  let isStarted = false
  let isLoaded = false // saving before would replace what is stored by less
  let savedAt = clock.now()

  /** The map is ordered by when each upstream was last seen, and the first are dropped first. */
  function moveToEnd(id: string, kept: Kept): void {
    known.delete(id)
    known.set(id, kept)
  }

  async function load(): Promise<void> {
    const stored = await inOwnTurns(unpacked((await blobs.read(BLOB)) ?? []))
    const seen = [...known]
    for (const [id, { hours, days }] of stored) {
      const own = known.get(id)
      known.set(id, { hours: joined(hours, own?.hours), days: joined(days, own?.days) })
    }
    for (const [id, own] of seen) moveToEnd(id, known.get(id) ?? own)
    isLoaded = true
  }

  async function save(): Promise<void> {
    savedAt = clock.now()
    if (!isLoaded) await load()
    await blobs.write(BLOB, await inOwnTurns(packed([...known])))
  }

  async function look(): Promise<void> {
    for (const sample of await samples()) {
      const { upstream } = sample
      const series = known.get(upstream) ?? { hours: [], days: [] }
      moveToEnd(upstream, series)
      for (const span of Object.keys(SPANS) as Span[])
        noteSample(series[span], SPANS[span], clock.now(), sample)
    }
    for (const id of known.keys()) if (known.size > MOST_UPSTREAMS) known.delete(id)
  }

  const trouble = (error: unknown) => onTrouble(`what upstreams did is not kept: ${String(error)}`)

  async function follow(): Promise<void> {
    await load().catch(trouble)
    while (!closed) {
      await look()
      if (clock.now() - savedAt >= SAVE_EVERY_MS) await save().catch(trouble)
      await pause(clock, LOOK_EVERY_MS)
    }
  }

  return {
    /** Takes a sample every ten seconds from now on. */
    start(): void {
      isStarted = true
      void follow()
    },
    /** Takes a sample now, because something has happened. */
    look: () => void look(),
    /** The points of an upstream (its id); undefined for one that was never seen. */
    of(upstream: string, span: Span): Points | undefined {
      const series = known.get(upstream)?.[span]
      if (!series) return undefined
      const column = (at: number) =>
        series.map((point) => (Number.isNaN(point[at]) ? null : (point[at] as number)))
      return {
        step_seconds: SPANS[span].stepMs / 1_000,
        at: series.map(([at = 0]) => at / 1_000),
        ...{ rows: column(1), published: column(2), ms: column(3), failing: column(4) },
      }
    },
    async close(): Promise<void> {
      closed = true
      if (isStarted) await save().catch(trouble)
    },
  }
}

export type UpstreamHistory = ReturnType<typeof createUpstreamHistory>
