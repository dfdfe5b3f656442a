/**
 * When the feed opens after a start. With saved slices at once: what was good before the restart is good now. Else when
 * every upstream has answered and everything that follows from the answers was read, but not for ever: then with
 * what is there, the rest named in `incomplete[]`.
 */
import type { Providers } from '../authz/providers.js'
import type { Clock } from '../net/clock.js'
import type { UpstreamStatus } from '../upstreams/status.js'
import type { Upstreams } from '../upstreams/upstreams.js'

const OPEN_AFTER_MS = 5_000
const POLL_MS = 20

export type OpeningOptions = {
  upstreams: Upstreams
  providers: Providers
  /** When an upstream was last asked to refresh because a provider's file changed what it can be asked for, ms. */
  askedAgain: ReadonlyMap<string, number>
  clock: Clock
}

function followedUp(
  { id, confirmedAt, state }: UpstreamStatus,
  askedAgain: ReadonlyMap<string, number>,
): boolean {
  const asked = askedAgain.get(id)
  return asked === undefined || state === 'absent' || (confirmedAt ?? 0) >= asked
}

/** Resolves when the first snapshot should be built. Call it once `upstreams.start()` has resolved. */
export async function opening({ upstreams, providers, askedAgain, clock }: OpeningOptions): Promise<void> {
  const until = clock.now() + OPEN_AFTER_MS
  const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve))
  async function poll(settled: () => boolean): Promise<void> {
    while (!settled() && clock.now() < until) await pause(POLL_MS)
  }
  const providersSettled = () => Promise.race([providers.settled(), pause(until - clock.now())])

  if (upstreams.slices().length === 0) {
    await poll(() => upstreams.registries().every(({ fetchedAt, problem }) => fetchedAt ?? problem))
    await poll(() => upstreams.statuses().every(({ state }) => state !== 'starting'))
    await providersSettled()
    await poll(() => upstreams.statuses().every((status) => followedUp(status, askedAgain)))
  }
  await providersSettled()
}
