/**
 * When the feed opens after a start. With saved slices at once: what was good before the restart is good now. Otherwise
 * when every upstream has answered and everything that follows from the answers was read, but not later than a limit:
 * then with what is there, and `incomplete[]` names the rest.
 */
import type { Providers } from '../../authz/provider/providers.js'
import { type Clock, pause } from '../../net/clock.js'
import type { UpstreamStatus } from '../../upstreams/agent/status.js'
import type { Upstreams } from '../../upstreams/upstreams.js'

const OPEN_AFTER_MS = 5_000 // by default
const POLL_MS = 20

type OpeningOptions = {
  upstreams: Upstreams
  providers: Providers
  clock: Clock
  /** How long it waits for upstreams that do not answer, ms. */
  openAfterMs?: number | undefined
}

/** While a scope is read its next attempt is not ahead. */
export function isSettled({ nextAttemptAt = 0, awaited = false }: UpstreamStatus, now: number): boolean {
  return nextAttemptAt > now && !awaited
}

/** Resolves when the first snapshot should be built. Call it once `upstreams.start()` has resolved. */
export async function opening({
  upstreams,
  providers,
  clock,
  openAfterMs = OPEN_AFTER_MS,
}: OpeningOptions): Promise<void> {
  const until = clock.now() + openAfterMs
  async function poll(holds: () => boolean): Promise<void> {
    while (!holds() && clock.now() < until) await pause(clock, POLL_MS)
  }
  const upstreamsSettled = () =>
    poll(() =>
      [...upstreams.statuses(), ...upstreams.accountStatuses()].every((status) =>
        isSettled(status, clock.now()),
      ),
    )
  const providersSettled = () => Promise.race([providers.settled(), pause(clock, until - clock.now())])

  if (upstreams.slices().length === 0) {
    await poll(() => upstreams.registries().every(({ fetchedAt, problem }) => fetchedAt ?? problem))
    await upstreamsSettled()
    await providersSettled()
    await upstreamsSettled()
  }
  await providersSettled()
}
