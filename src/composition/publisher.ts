/**
 * Publishes the feed: one snapshot of the public layer and one of each account's, built in the worker, one round at a
 * time. Whatever changes during a round is in the next; time alone can ask for one, when a grant's window opens or ends.
 */
import type { Logger } from 'pino'
import type { Providers } from '../authz/provider/providers.js'
import type { PolicySettings } from '../authz/rules/policy.js'
import type { Feed } from '../feed/feed.js'
import type { Clock } from '../net/clock.js'
import type { BuilderHost, Built } from '../snapshot/builder-host.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { createCoalescer } from './coalesce.js'
import type { Overlays } from './overlays.js'

export type PublisherOptions = {
  upstreams: Upstreams
  providers: Providers
  overlays: () => Overlays
  policy: () => PolicySettings
  builder: BuilderHost
  feed: Feed
  clock: Clock
  log: Logger
  /** Told of each snapshot of the public layer, with how long its build took. */
  onPublished(before: Snapshot | undefined, after: Snapshot, seconds: number): void
  onFailure(): void
}

export type Publisher = ReturnType<typeof createPublisher>

export function createPublisher(options: PublisherOptions) {
  const { upstreams, providers, overlays, policy, builder, feed, clock, log, onPublished, onFailure } =
    options
  let cancel = () => {}

  function build(slices: readonly Slice[], account?: string): Promise<Built> {
    const now = clock.now()
    return builder.build({
      slices,
      providers: providers.states(),
      policy: policy(),
      now,
      ...(account !== undefined && { account }),
    })
  }

  async function round(): Promise<void> {
    const open = upstreams.slices()
    const startedAt = clock.now()
    const { snapshot, rebuildAt } = await build(open)
    const accounts = new Map<string, { snapshot: Snapshot; gaps: [] }>()
    for (const { name, slices } of overlays().layers(open)) {
      accounts.set(name, { snapshot: (await build(slices, name)).snapshot, gaps: [] })
    }
    for (const name of overlays().bare()) await builder.forget(name)
    const before = feed.current()
    feed.publish(snapshot, clock.now(), { accounts })
    onPublished(before, snapshot, (clock.now() - startedAt) / 1_000)
    cancel()
    if (rebuildAt !== undefined) cancel = clock.after(rebuildAt - clock.now(), () => void rounds.request())
  }

  const rounds = createCoalescer(() =>
    round().catch((err: unknown) => {
      onFailure()
      log.error({ err }, 'a snapshot could not be built; the last one stays')
    }),
  )

  return {
    /** Resolves when a round that began after this call has ended. */
    request: rounds.request,
    async close(): Promise<void> {
      cancel()
      await rounds.close()
    },
  }
}
