/**
 * What is measured where it happens: how long the serving thread is blocked and answers nothing, and the requests to each
 * upstream with their outcomes, as a wrapper around `send`, so that the code of upstreams does not deal with metrics. Gives
 * `tributary_loop_*` and `tributary_upstream_request*` (docs/metrics.md) and the measured part of `health` in the registry
 * listing.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Send, SendOutcome } from '../net/send.js'
import { createRecent } from '../process/memory.js'
import type { RosterEntry } from '../upstreams/roster/roster.js'

const EVERY_MS = 10
const NOTABLE_MS = 20 // shorter delays come from the timer's own precision
const STOP_SECONDS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const MAX_URLS = 10_000
const OTHERS = 'others' // upstreams without a series of their own
const OTHER = 'other' // requests to registries, and to upstreams that have left the roster meanwhile

/**
 * Measures how long the thread is blocked, into metrics of `registry`, until it is closed. A timer that fires late shows it;
 * work in other threads does not count.
 */
export function createWatchdog(registry: Registry) {
  let last = performance.now()
  let longestMs = 0
  const stops = new Histogram({
    name: 'tributary_loop_stop_seconds',
    help: 'Stops of the serving thread, those of 20 ms and more',
    buckets: STOP_SECONDS,
    registers: [registry],
  })
  new Gauge({
    name: 'tributary_loop_longest_stop_seconds',
    help: 'The longest stop of the serving thread, since the start',
    registers: [registry],
    collect() {
      this.set(longestMs / 1_000)
    },
  })
  const timer = setInterval(() => {
    const now = performance.now()
    const stopMs = now - last - EVERY_MS
    last = now
    if (stopMs > longestMs) longestMs = stopMs
    if (stopMs >= NOTABLE_MS) stops.observe(stopMs / 1_000)
  }, EVERY_MS)
  timer.unref()

  return { close: () => clearInterval(timer) }
}

/**
 * The names of upstreams in labels: the id of up to `most` of the roster, so that a registry with ten thousand agents does not
 * make as many series, and `others` for the rest. The place of one that leaves is free for another; `left` is told of it.
 */
export function createUpstreamLabels(
  entries: () => readonly RosterEntry[],
  most: number,
  left: (id: string) => void,
) {
  const labelled = new Set<string>()
  let known: readonly RosterEntry[] = []

  function follow(): void {
    const current = entries()
    if (current === known) return
    known = current
    const ids = new Set(current.map(({ id }) => id))
    for (const id of labelled) {
      if (ids.has(id)) continue
      labelled.delete(id)
      left(id)
    }
    for (const id of ids) if (labelled.size < most) labelled.add(id)
  }

  return (id: string): string => {
    follow()
    return labelled.has(id) ? id : OTHERS
  }
}

/** The last exchange with an upstream that brought an answer, whatever its status. */
type Answered = { at: number; ms: number }

export type UpstreamMeter = {
  metered(send: Send): Send
  /** Last answer of an agent (canonical url); undefined when it has not answered yet. */
  lastAnswer(agentUrl: string): Answered | undefined
  /** Drops the series of an upstream that has left the roster. */
  forget(upstream: string): void
}

type UpstreamMeterOptions = {
  registry: Registry
  entries(): readonly RosterEntry[]
  /** The name of an upstream in labels. */
  labelOf(entry: RosterEntry): string
  now(): number
}

function outcomeOf(outcome: SendOutcome): string {
  if (outcome.kind === 'failed') return outcome.reason
  return `${Math.floor(outcome.status / 100)}xx`
}

type Place = { entry: RosterEntry; pathname: string }

/** Who is at each host. */
function placesOf(entries: readonly RosterEntry[]): ReadonlyMap<string, readonly Place[]> {
  const places = new Map<string, Place[]>()
  for (const entry of entries) {
    const { host, pathname } = new URL(entry.url)
    const atHost = places.get(host)
    if (atHost) atHost.push({ entry, pathname })
    else places.set(host, [{ entry, pathname }])
  }
  return places
}

function sharedLength(a: string, b: string): number {
  let at = 0
  while (at < a.length && a[at] === b[at]) at += 1
  return at
}

/**
 * Whose request it is: agent cards and A2A endpoints have other paths than the agent's url, so the entry of that host with
 * the longest shared path is taken.
 */
function nearest(atHost: readonly Place[], { pathname }: URL): RosterEntry | undefined {
  const nearness = (place: Place) => sharedLength(place.pathname, pathname)
  return atHost.reduce<Place | undefined>(
    (best, place) => (best && nearness(best) >= nearness(place) ? best : place),
    undefined,
  )?.entry
}

/** Registers its metrics in `registry`. */
export function createUpstreamMeter({
  registry,
  entries,
  labelOf,
  now,
}: UpstreamMeterOptions): UpstreamMeter {
  const registers = [registry]
  const requests = new Counter({
    name: 'tributary_upstream_requests_total',
    help: 'HTTP requests to an upstream by outcome: the class of the status, or why there was none',
    labelNames: ['upstream', 'outcome'],
    registers,
  })
  const seconds = new Histogram({
    name: 'tributary_upstream_request_seconds',
    help: 'Time from an HTTP request to the end of its answer',
    labelNames: ['upstream'],
    buckets: BUCKETS_SECONDS,
    registers,
  })
  const bytes = new Counter({
    name: 'tributary_upstream_received_bytes_total',
    help: 'Decoded bytes of the answers of an upstream',
    labelNames: ['upstream'],
    registers,
  })
  const inFlight = new Set<{ readonly url: string }>()
  new Gauge({
    name: 'tributary_upstream_requests_in_flight',
    help: 'HTTP requests to an upstream that wait for their answer',
    labelNames: ['upstream'],
    registers,
    collect() {
      this.reset()
      for (const entry of entries()) this.inc({ upstream: labelOf(entry) }, 0)
      for (const { url } of inFlight) this.inc({ upstream: nameOf(ownerOf(url)) })
    },
  })
  const outcomes = new Set<string>()
  const answers = createRecent<Answered>(MAX_URLS)
  const owners = createRecent<{ entry: RosterEntry | undefined }>(MAX_URLS)
  let known: readonly RosterEntry[] = []
  let places = placesOf(known)

  function ownerOf(text: string): RosterEntry | undefined {
    const current = entries()
    if (current !== known) {
      owners.clear()
      known = current
      places = placesOf(current)
    }
    if (!URL.canParse(text)) return undefined
    const url = new URL(text)
    const place = `${url.host}${url.pathname}`
    const held = owners.get(place) ?? { entry: nearest(places.get(url.host) ?? [], url) }
    owners.set(place, held)
    return held.entry
  }

  const nameOf = (entry: RosterEntry | undefined) => (entry ? labelOf(entry) : OTHER)

  /** Counted for whose the url is when the answer has come: who was asked may have left meanwhile. */
  function metered(send: Send): Send {
    return async (request) => {
      const startedAt = now()
      const waiting = { url: request.url }
      inFlight.add(waiting)
      try {
        const outcome = await send(request)
        const ms = now() - startedAt
        const entry = ownerOf(request.url)
        const upstream = nameOf(entry)
        const what = outcomeOf(outcome)
        outcomes.add(what)
        requests.inc({ upstream, outcome: what })
        seconds.observe({ upstream }, ms / 1_000)
        if (outcome.kind === 'reply') {
          bytes.inc({ upstream }, outcome.body.byteLength)
          if (entry) answers.set(entry.agentUrl, { at: now(), ms })
        }
        return outcome
      } finally {
        inFlight.delete(waiting)
      }
    }
  }

  function forget(upstream: string): void {
    for (const outcome of outcomes) requests.remove({ upstream, outcome })
    seconds.remove({ upstream })
    bytes.remove({ upstream })
  }

  return { metered, lastAnswer: (agentUrl) => answers.get(agentUrl), forget }
}
