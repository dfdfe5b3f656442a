/** Brief discovery as one part: what the composition root makes and the server asks. */

import { createSearchHost } from '../feed/search/search-host.js'
import { compileSynonyms, type SynonymFile } from '../feed/search/synonyms.js'
import type { Snapshot } from '../feed/snapshot.js'
import type { Clock } from '../net/clock.js'
import type { EgressPolicy } from '../net/egress.js'
import type { Send } from '../net/send.js'
import type { Store } from '../store/store.js'
import { createFanout } from '../upstreams/fanout.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { type BriefOptions, createBrief } from './brief.js'
import { createDiscover, type DiscoverAnswer } from './discover.js'
import { rowKeys } from './findings.js'
import { createKept } from './kept.js'
import { createLater } from './later.js'
import { createLocal } from './local.js'
import { pause } from './pause.js'
import { createWebhook } from './webhook.js'
import { createSigner, type WebhookKey } from './webhook-signature.js'
import { createTargetCheck } from './webhook-target.js'

export type DiscoveryOptions = {
  feed: BriefOptions['feed']
  upstreams: Pick<Upstreams, 'call' | 'statuses'>
  judge: BriefOptions['judge']
  access?: BriefOptions['access']
  synonyms: SynonymFile
  store: Pick<Store, 'tasks' | 'blobs' | 'shared'>
  send: Send
  /** The policy that `send` follows now. */
  egressPolicy(): EgressPolicy
  /** Absent: only webhooks with legacy `authentication` are accepted. */
  webhookKey?: WebhookKey
  clock: Clock
  /** Unguessable. */
  newId(): string
  onTrouble(message: string): void
}

export function createDiscovery(options: DiscoveryOptions) {
  const { feed, upstreams, judge, access, synonyms, store, send, clock, newId, onTrouble, webhookKey } =
    options
  const call: Upstreams['call'] = (...args) => upstreams.call(...args)
  const search = createSearchHost(synonyms)
  const local = createLocal({ search, synonyms: compileSynonyms(synonyms) })
  const fanout = createFanout({ call, clock, prepare: rowKeys })
  const kept = createKept(clock.now)
  const brief = createBrief({ feed, local, fanout, upstreams, judge, ...(access && { access }) })
  const webhook = createWebhook({
    send,
    now: clock.now,
    ...(webhookKey && { signer: createSigner(webhookKey) }),
  })
  const later = createLater({
    ...{ brief, store, call, webhook, clock, newId, onTrouble },
    firstPage: (...args): DiscoverAnswer => answers.firstPage(...args),
    pushRules: { signs: webhookKey !== undefined, unreachable: createTargetCheck(options.egressPolicy) },
  })

  /** Only the first questions after a start wait: later ones are answered from the index before. */
  async function searchable(until: number, signal: AbortSignal): Promise<void> {
    if (!search.current()) await Promise.race([search.opened, pause(clock, until - clock.now(), signal)])
  }

  const answers = createDiscover({ brief, feed, kept, searchable, later })

  return {
    /** The server's `discover`. */
    discover: answers.discover,
    /** Where a handle leads that only answers know; ask the feed first. */
    resolve: answers.resolve,
    /** Indexes the public snapshot, off this thread. Call it with each that is published. */
    publish: (snapshot: Snapshot): Promise<void> => search.publish(snapshot),
    /** Takes up tasks of an earlier process; once the feed is published and the upstreams are known. */
    resume: later.resume,
    /** Before the upstreams and the store are closed. */
    async close(): Promise<void> {
      fanout.close()
      await later.close()
      kept.close()
      await search.close()
    },
  }
}

export type Discovery = ReturnType<typeof createDiscovery>
