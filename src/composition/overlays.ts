/**
 * What upstreams offer to the accounts of our callers (docs/decisions.md#callers): each account's own slices, read
 * again as often as the public ones, kept apart from them. The feed shows an account the public slices with its own
 * in their place.
 */
import type { AccountReference } from '../adcp/account.js'
import type { Auth } from '../config/auth.js'
import type { Clock } from '../net/clock.js'
import type { OverlayOutcome } from '../upstreams/mirror/overlay.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { type Coalescer, createCoalescer } from './coalesce.js'

/** What is sent to one upstream in an account's name. */
export type OverlayCredential = { account?: AccountReference; auth?: Auth }

/** One account of one caller and where it differs from the public. */
export type OverlayAccount = {
  /** The feed's name of the layer, and the scope of its slices. */
  name: string
  /** Whose account it is. */
  caller: string
  /** By canonical agent url. */
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

const RETRY_MS = 5_000 // an upstream that could not be read, or was never met

/** The public slices with an account's own in their place. */
function replaced(open: readonly Slice[], own: ReadonlyMap<string, Slice>): Slice[] {
  return [...open.filter(({ agentUrl }) => !own.has(agentUrl)), ...own.values()]
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
  const again = new Map<string, Coalescer>() // by account and upstream; one each
  const unmet = new Map<string, Set<OverlayAccount>>() // by upstream that was not in the roster when it was asked
  let cancel = () => {}
  let closed = false

  /** Each outcome as it comes, so that no reading undoes one that began later; whether the account's slice changed. */
  function take(name: string, agentUrl: string, outcome: OverlayOutcome): boolean {
    const before = slices.get(name)
    const own = new Map(before)
    if (outcome.kind === 'slice') own.set(agentUrl, outcome.slice)
    else own.delete(agentUrl)
    slices.set(name, own)
    return own.get(agentUrl) !== before?.get(agentUrl)
  }

  async function readOne(
    account: OverlayAccount,
    agentUrl: string,
    fresh: boolean,
  ): Promise<{ changed: boolean; failed: boolean }> {
    const { name, upstreams: wanted } = account
    const scope = { scope: name, ...wanted.get(agentUrl) }
    const outcome = await upstreams.overlay(upstreams.idOf(agentUrl), scope, clock.now() + timeoutMs, fresh)
    const changed = take(name, agentUrl, outcome)
    if (outcome.kind === 'failed' && outcome.reason === 'unknown_upstream') {
      unmet.set(agentUrl, (unmet.get(agentUrl) ?? new Set()).add(account))
    }
    return { changed, failed: outcome.kind === 'failed' }
  }

  async function readAll(): Promise<void> {
    const readings = await Promise.all(
      accounts.flatMap((account) => [...account.upstreams.keys()].map((url) => readOne(account, url, false))),
    )
    if (closed) return
    if (readings.some(({ changed }) => changed)) onChange()
    const pause = readings.some(({ failed }) => failed) ? Math.min(refreshMs, RETRY_MS) : refreshMs
    cancel = clock.after(pause, () => void readAll())
  }

  function readingAgain(account: OverlayAccount, agentUrl: string): Coalescer {
    const key = JSON.stringify([account.name, agentUrl])
    const known = again.get(key)
    if (known) return known
    const coalescer = createCoalescer(async () => {
      const { changed } = await readOne(account, agentUrl, true)
      if (changed && !closed) onChange()
    })
    again.set(key, coalescer)
    return coalescer
  }

  /** Its own slice has come, so it is in the roster now. */
  function meet(id: string): void {
    for (const [agentUrl, waiting] of unmet) {
      if (upstreams.idOf(agentUrl) !== id) continue
      unmet.delete(agentUrl)
      for (const account of waiting) void readingAgain(account, agentUrl).request()
    }
  }

  const stopMeeting = upstreams.onChange(meet)
  if (accounts.length > 0) void readAll()

  return {
    /** Something changed at an upstream for a caller: what it gives to the caller's accounts is read again now. */
    refreshSoon(agentUrl: string, caller: string): void {
      for (const account of accounts) {
        if (account.caller !== caller || !account.upstreams.has(agentUrl)) continue
        void readingAgain(account, agentUrl).request()
      }
    },
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
      stopMeeting()
      cancel()
      for (const coalescer of again.values()) void coalescer.close()
    },
  }
}
