/** Brief discovery as one part: what the composition root makes and the server asks. */
import { readFile } from 'node:fs/promises'
import type { Destination } from '../adcp/signal.js'
import type { Post } from '../events/letter.js'
import { createTargetCheck, createWebhook, type PushRules } from '../events/webhook.js'
import type { Feed } from '../feed/feed.js'
import { type Resolved, resolveHandle } from '../feed/find-signal.js'
import { type Health, incompleteOf } from '../feed/incomplete.js'
import type { Rates, Reader } from '../feed/query.js'
import { signalPart } from '../merge/identity.js'
import { type Clock, createDeadline, within } from '../net/clock.js'
import type { EgressPolicy } from '../net/routes.js'
import { createSearchHost } from '../search/search-host.js'
import { compileSynonyms, parseSynonyms, type SynonymFile } from '../search/synonyms.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import { createLearned, type FoundRow } from '../store/records/found.js'
import type { Store } from '../store/store.js'
import { asAsked } from '../upstreams/asker.js'
import { createFanout } from '../upstreams/fanout.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { createAnswerPages } from './answer-pages.js'
import { createBrief, ownScopes } from './brief.js'
import { createDiscover, type DiscoverAnswer } from './discover.js'
import { createKept } from './kept.js'
import { createLater } from './later.js'
import { createLocal } from './local.js'
import { createLookup } from './lookup.js'
import { createRanking } from './rank.js'
import { createStanding, isAskable, type StandingOptions } from './standing.js'

export type BriefsOptions = {
  feed: Pick<Feed, 'current' | 'moment' | 'prepared' | 'see'>
  upstreams: Pick<Upstreams, 'ask' | 'statuses' | 'statusesOf' | 'silentRegistries' | 'roster'>
  judge: StandingOptions['judge']
  access: StandingOptions['access']
  synonyms: SynonymFile
  store: Pick<Store, 'tasks' | 'jobs' | 'accounts' | 'write' | 'found' | 'shared' | 'handover'>
  /** The destinations whose activation keys a caller may see now; undefined when there is no such caller any more. */
  grantsOf(caller: string): readonly Destination[] | undefined
  /** How webhooks are sent, and the current policy for them. */
  post: Post
  egressPolicy(): EgressPolicy
  /** False: only webhooks with legacy `authentication` are accepted. */
  signsWebhooks: boolean
  /** Exchange rates, to compare prices in different currencies. */
  rates(): Rates | undefined
  clock: Clock
  /** The key that cursors are signed with: the same on all replicas. */
  secret: string | Uint8Array
  /** Unguessable. */
  newId(): string
  /** Bytes of a feed that is indexed without a thread. */
  smallFeedBytes?: number | undefined
  onTrouble(message: string): void
}

/** How long an answer waits until other processes can read what they need of it; then it is sent all the same. */
const TOLD_WITHIN_MS = 2_000

/** The one file that changes what brief discovery understands. Throws with the path and what is wrong there. */
export async function readSynonyms(path: string): Promise<SynonymFile> {
  return parseSynonyms(await readFile(path, 'utf8'), path)
}

/** Everything of this room for one running server. */
export function createBriefs(options: BriefsOptions) {
  const { feed, upstreams, judge, access, synonyms, store, post, clock, newId, onTrouble } = options
  const call = asAsked((...args) => upstreams.ask(...args))
  const words = compileSynonyms(synonyms)
  const search = createSearchHost(words, options.smallFeedBytes)
  const local = createLocal({ search, synonyms: words })
  const ranking = createRanking({ local, synonyms: words, rates: options.rates })
  const fanout = createFanout({ call, clock })
  const soon = (work: Promise<void>) => within(work, { timeoutMs: TOLD_WITHIN_MS, clock }, () => {})
  const { handover } = store
  const late = () => {
    throw new StorageUnavailable('the storage takes longer than an answer may wait')
  }
  const kept = createKept({
    ...{ clock, secret: options.secret, onTrouble },
    ...(handover && {
      shared: {
        keep: (items) => within(handover.keep(items), { timeoutMs: TOLD_WITHIN_MS, clock }, late),
        find: handover.find,
      },
    }),
  })
  const learned = createLearned({ found: store.found, isShared: store.shared, clock, onTrouble })

  /** Rows of earlier answers, as the upstreams that are asked now for the reader gave them. */
  async function rowsOf(handles: readonly string[], reader: Reader): Promise<FoundRow[]> {
    const scopesOf = () => {
      const asked = upstreams.statuses().filter(isAskable)
      return new Map(asked.map(({ agentUrl }) => [agentUrl, access(reader, agentUrl).scope]))
    }
    return await learned.rowsOf(handles, scopesOf)
  }

  const standing = createStanding({ upstreams, access, judge })
  const brief = createBrief({ feed, ranking, fanout, upstreams, standing, access, clock })
  const webhook = createWebhook({ post, now: clock.now })
  const pushRules: PushRules = {
    signs: options.signsWebhooks,
    unreachable: createTargetCheck(options.egressPolicy),
  }
  const later = createLater({
    ...{ brief, store, call, webhook, clock, newId, onTrouble, grantsOf: options.grantsOf },
    firstPage: (...args): Promise<DiscoverAnswer> => answers.firstPage(...args),
    pushRules,
  })

  /** Resolves when the snapshot that is published now can be searched; later snapshots are not waited for. */
  async function searchable(until: number, signal: AbortSignal): Promise<boolean> {
    const asked = Math.max(1, search.newest())
    if (search.covers(asked)) return true
    const deadline = createDeadline({ timeoutMs: until - clock.now(), signal, clock })
    while (!search.covers(asked) && !deadline.why()) await Promise.race([search.change(), deadline.ended])
    deadline.release()
    return search.covers(asked)
  }

  const asWhom = (reader: Reader) =>
    ownScopes(
      upstreams.statuses().map(({ agentUrl }) => ({ agentUrl, scope: access(reader, agentUrl).scope })),
    )

  const pages = createAnswerPages({ feed, kept, standing, rowsOf, upstreams, asWhom })
  const { statusesOf, silentRegistries } = upstreams
  // Without statuses: an answer names each upstream that is missing from it (briefs/brief.ts).
  const health: Health = { statuses: () => [], statusesOf, silentRegistries }
  const answers = createDiscover({
    ...{ brief, pages, searchable, later },
    async learn(rows) {
      const told = learned.learn(rows)
      if (told) await soon(told)
    },
    lacks: (gaps, { account }) =>
      incompleteOf({ gaps, health, account, scope: 'signals', now: clock.now() }) ?? [],
  })

  async function resolveAs(handle: string, reader: Reader): Promise<Resolved | undefined> {
    const snapshot = feed.current(reader.account)
    if (!snapshot) return undefined
    const said = await rowsOf([signalPart(handle)], reader)
    const { extra } = await standing.corpusOf(snapshot, said, reader)
    return extra && resolveHandle(extra, handle)
  }

  /** The signal of a handle that only earlier answers know, for activation; call it when the feed does not have it. */
  async function resolve(handle: string, reader: Reader): Promise<Resolved | undefined> {
    const { account, ...open } = reader
    const own = await resolveAs(handle, reader)
    // Found without an account, activated with one: as in the feed, the public layer comes second.
    return own ?? (account === undefined ? undefined : await resolveAs(handle, open))
  }

  return {
    /** The server's `discover`. */
    discover: answers.discover,
    /** The server's `lookup`. */
    lookup: createLookup({ feed, pages, rowsOf, standing }),
    resolve,
    /** The index in use, for the console; undefined until the first one is built. */
    searchable: search.current,
    /** What a caller's webhook must be, for whoever else answers a question later. */
    pushRules,
    /** Indexes the public snapshot. Call it with each published one; it rejects when the index cannot be built. */
    publish: (snapshot: Snapshot): Promise<void> => search.publish(snapshot),
    /** Continues the tasks of an earlier process; call it once the feed is published and the upstreams are known. */
    resume: later.resume,
    givingUp: later.givingUp,
    /** Call it before the upstreams and the store are closed. */
    async close(): Promise<void> {
      fanout.close()
      await later.close()
      await learned.close()
      kept.close()
      await search.close()
    },
  }
}
