/**
 * What upstreams offer to the accounts of our callers (DESIGN 5.6): each account's own slices, read again as often as
 * the public ones, kept apart from them. The feed shows an account the public slices with its own in their place.
 */
import type { AccountReference } from '../adcp/account.js'
import type { Auth } from '../config/values.js'
import type { Clock } from '../net/clock.js'
import type { Slice } from '../upstreams/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'

/** What is sent to one upstream in an account's name. */
export type OverlayCredential = { account?: AccountReference; auth?: Auth }

/** One account of one caller and where it differs from the public. */
export type OverlayAccount = {
  /** The feed's name of the layer, and the scope of its slices. */
  name: string
  /** By upstream id. */
  upstreams: ReadonlyMap<string, OverlayCredential>
}

export type OverlaysOptions = {
  upstreams: Upstreams
  accounts: readonly OverlayAccount[]
  refreshMs: number
  /** For one reading of one upstream, ms. */
  timeoutMs: number
  clock: Clock
  /** An account's slices are others than before. */
  onChange: () => void
}

export type Overlays = ReturnType<typeof createOverlays>

const RETRY_MS = 5_000 // an upstream that could not be read, or is not in the roster yet

/** The public slices with an account's own in their place. */
function replaced(open: readonly Slice[], own: ReadonlyMap<string, Slice>): Slice[] {
  return [...open.filter(({ upstream }) => !own.has(upstream)), ...own.values()]
}

/** Starts reading at once; an account that was not read yet sees the public feed. */
export function createOverlays({
  upstreams,
  accounts,
  refreshMs,
  timeoutMs,
  clock,
  onChange,
}: OverlaysOptions) {
  const slices = new Map<string, ReadonlyMap<string, Slice>>()
  let cancel = () => {}
  let closed = false

  async function read({
    name,
    upstreams: wanted,
  }: OverlayAccount): Promise<{ changed: boolean; whole: boolean }> {
    const before = slices.get(name) ?? new Map<string, Slice>()
    const own = new Map<string, Slice>()
    let whole = true
    await Promise.all(
      [...wanted].map(async ([id, credential]) => {
        const outcome = await upstreams.overlay(id, { scope: name, ...credential }, clock.now() + timeoutMs)
        if (outcome.kind === 'slice') own.set(id, outcome.slice)
        if (outcome.kind === 'failed') whole = false
      }),
    )
    slices.set(name, own)
    const changed = own.size !== before.size || [...own].some(([id, slice]) => before.get(id) !== slice)
    return { changed, whole }
  }

  async function readAll(): Promise<void> {
    const readings = await Promise.all(accounts.map(read))
    if (closed) return
    if (readings.some(({ changed }) => changed)) onChange()
    const pause = readings.every(({ whole }) => whole) ? refreshMs : Math.min(refreshMs, RETRY_MS)
    cancel = clock.after(pause, () => void readAll())
  }

  if (accounts.length > 0) void readAll()

  return {
    /** The layers whose accounts have slices of their own, over these public ones. */
    layers(open: readonly Slice[]): { name: string; slices: Slice[] }[] {
      return accounts.flatMap(({ name }) => {
        const own = slices.get(name)
        return own && own.size > 0 ? [{ name, slices: replaced(open, own) }] : []
      })
    },
    /** Accounts that have none any more. */
    bare(): string[] {
      return accounts.filter(({ name }) => !slices.get(name)?.size).map(({ name }) => name)
    },
    close() {
      closed = true
      cancel()
    },
  }
}
