/** From the world to the published feed: merged, saved, shared with other processes, and searched. */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { createBriefs } from '../../briefs/briefs.js'
import { readSynonyms } from '../../briefs/ranking/local.js'
import { webhookPolicy } from '../../events/webhook.js'
import type { Feed } from '../../feed/feed.js'
import { pause } from '../../net/clock.js'
import type { Operations } from '../../operations/operations.js'
import { createBuilderHost } from '../../snapshot/builder-host.js'
import type { Snapshot } from '../../snapshot/snapshot.js'
import { accountAccess, accountsOf } from '../configuration/account-settings.js'
import type { Sources } from '../sources/sources.js'
import type { Foundation } from '../start/foundation.js'
import type { Stack } from '../start/stack.js'
import { createGenerations } from './generations.js'
import { createPublisher } from './publisher.js'
import { createSavedFeed } from './saved-feed.js'

const INDEX_AGAIN_MS = 5_000
const REST_MS = 15_000 // longer than the first feed waits for whoever does not answer, and than it takes to merge
const SYNONYMS = fileURLToPath(new URL('../../../../config/synonyms.yaml', import.meta.url))

type PublishingOptions = {
  foundation: Foundation
  sources: Sources
  operations: Operations
  feed: Feed
  /** A feed of so few bytes has no threads of its own; absent: as each room thinks right. */
  smallFeedBytes: number | undefined
  /** How long after a restart questions wait for what the feed was merged from, ms. */
  restMs?: number | undefined
  /** Told of each generation that readers now see. */
  onPublished(): void
}

/** Publishes nothing before `publisher.open`. */
export async function createPublishing(options: PublishingOptions, stack: Stack) {
  const { foundation, sources, operations, feed, smallFeedBytes, restMs = REST_MS, onPublished } = options
  const { inForce, config, store, clock, random, log, replica, secret, warning } = foundation
  const { blobs } = store
  const { upstreams, verdicts, worlds } = sources
  const { signingKey } = config().events
  const builder = stack.add(createBuilderHost(smallFeedBytes))
  const savedFeed = stack.add(
    createSavedFeed({
      ...{ blobs, clock, onTrouble: warning('feed') },
      revision() {
        const { excluded, suspended } = inForce.overrides()
        return excluded.size + suspended.size === 0 ? config().revision : undefined
      },
      served: () => publisher.served(),
    }),
  )
  let loading = replica ? undefined : savedFeed.load(config().revision) // while everything else is made
  let rest: Promise<boolean> | undefined
  const briefs = stack.add(
    createBriefs({
      ...{ feed, upstreams, store, clock },
      send: foundation.sendToCallers,
      egressPolicy: () => webhookPolicy(config().egress),
      judge: verdicts.judge,
      access: (reader, agentUrl) => accountAccess(config(), reader, agentUrl),
      grantsOf: (caller) => config().callers.keys.find(({ id }) => id === caller)?.destinations ?? [],
      rates: () => config().rates,
      synonyms: await readSynonyms(SYNONYMS),
      ...{ secret, newId: randomUUID, smallFeedBytes },
      onTrouble: warning('discovery'),
      ...(signingKey && { webhookKey: signingKey }),
    }),
  )

  function index(snapshot: Snapshot): void {
    briefs.publish(snapshot).catch((err: unknown) => {
      log.error({ err }, 'a snapshot could not be indexed; the last index stays, and it is tried again')
      clock.after(INDEX_AGAIN_MS, () => {
        if (feed.current() === snapshot) index(snapshot) // else a newer one has been indexed, or will be
      })
    })
  }

  function show(before: Snapshot | undefined, snapshot: Snapshot, seconds: number): void {
    operations.published(before, snapshot, seconds)
    index(snapshot)
    onPublished()
  }

  const generations =
    replica &&
    stack.add(
      createGenerations({
        ...{ sharing: replica.sharing, blobs, feed, clock, secret },
        accounts: () => accountsOf(config()),
        onTaken: (before, snapshot) => show(before, snapshot, 0),
        onTrouble: warning('replicas'),
      }),
    )
  const publisher = stack.add(
    createPublisher({
      ...{ worlds, builder, feed, clock, random, log },
      ...(generations && { generations }),
      onPublished(before, snapshot, seconds) {
        operations.built(before, snapshot)
        if (!generations) savedFeed.keep(snapshot)
        show(before, snapshot, seconds)
      },
      onFailure: operations.buildFailed,
    }),
  )

  return {
    ...{ briefs, publisher, generations },
    /**
     * Takes up the merged feed of an earlier process that was alone on its storage, and shows it if it was what that
     * served last.
     */
    async restore(): Promise<void> {
      const last = await loading
      loading = undefined // it is large
      if (last) builder.restore(last.snapshot)
      if (!last?.gaps) return
      feed.resume(last.snapshot, clock.now(), last.gaps)
      const ending = new AbortController()
      const end = () => ending.abort()
      stack.add({ close: end }) // before the server, which ends when all are answered
      const first = publisher.first().then(() => {
        rest = undefined
        end()
        return true
      })
      rest = Promise.race([first, pause(clock, restMs, ending.signal).then(() => false)])
    },
    /**
     * As long as only what was restored is shown: what any question waits for that needs more. False: it has not come in
     * time, and whoever asks should ask again.
     */
    rest: () => rest,
  }
}

export type Publishing = Awaited<ReturnType<typeof createPublishing>>
