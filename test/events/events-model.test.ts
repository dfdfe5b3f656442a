/** Random worlds, subscribers and receivers, against what a walk gives to the same eyes. */
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import fc from 'fast-check'
import { type Test, test } from 'tap'
import type { Destination } from '../../src/adcp/signal.js'
import { createAnnouncer } from '../../src/events/announcer.js'
import { createPost } from '../../src/events/letter.js'
import { createStandings, type Eyes } from '../../src/events/standings.js'
import { subscriptionJob } from '../../src/events/stream.js'
import { createWebhook } from '../../src/events/webhook.js'
import type { Feed } from '../../src/feed/feed.js'
import type { Reader } from '../../src/feed/query.js'
import type { Send } from '../../src/net/send.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Store } from '../../src/store/store.js'
import { anyWorld, type World } from '../feed/arbitrary.js'
import { emptyFeed } from '../feed/feed-of.js'
import { pageOf, rowsOf, walk } from '../feed/reader.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'
import { embedded } from '../store/support/storages.js'
import { proven } from '../support/proven.js'
import { createManualClock } from '../support/upstream-clock.js'
import { createMirror, type Read } from './support/mirror.js'
import { type Body, EVERY_EVENT, schemaFault } from './support/subscriber.js'

const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
/** What was told in all runs, by kind. */
const kinds = new Map<string, number>()
const signer = createSigner({ keyId: 'k', privateKey: generateKeyPairSync('ed25519').privateKey }, WEBHOOKS)

/** Who subscribes: with whose eyes. */
const SUBSCRIBERS: { id: string; grants: Destination[]; hasAccount: boolean }[] = [
  { id: 'plain', grants: [], hasAccount: false },
  { id: 'granted', grants: [DESK], hasAccount: false },
  { id: 'account', grants: [], hasAccount: true },
  { id: 'both', grants: [DESK], hasAccount: true },
]

/** What becomes of one delivery, and of what was taken by it. */
const anyFate = fc.constantFrom('taken', 'taken', 'taken', 'refused', 'late', 'lost', 'twice', 'held')
type Fate = 'taken' | 'refused' | 'late' | 'lost' | 'twice' | 'held'

type Step = { world: World; account: World | undefined; fates: Fate[] }
/** Few signals of which little differs: most steps change some of them, and not all. */
const anyNearWorld: fc.Arbitrary<World> = fc
  .array(
    fc.option(
      fc.record({
        name: fc.constantFrom('A', 'A', 'B'),
        cpm: fc.constantFrom(1, 1, 2),
        key: fc.constantFrom('k1', 'k1', 'k2'),
      }),
      { nil: undefined, freq: 5 },
    ),
    { minLength: 5, maxLength: 5 },
  )
  .map((all) => ({
    slices: [
      sliceOf(
        'alpha',
        all.flatMap((one, at) => {
          if (!one) return []
          const activation_key = { type: 'segment_id' as const, segment_id: one.key }
          return listing(`s${at}`, {
            name: one.name,
            deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true, activation_key }],
            pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: one.cpm, currency: 'USD' }],
          })
        }),
      ),
    ],
    judge: judgeThat(),
  }))
const anyWorldToTell = fc.oneof({ arbitrary: anyNearWorld, weight: 4 }, { arbitrary: anyWorld, weight: 1 })

const anyStep: fc.Arbitrary<Step> = fc.record({
  world: anyWorldToTell,
  account: fc.option(anyWorldToTell, { nil: undefined }),
  fates: fc.oneof(fc.constant<Fate[]>(['taken']), fc.array(anyFate, { minLength: 1, maxLength: 6 })),
})

const eyesOf = (id: string): Eyes | undefined => {
  const found = SUBSCRIBERS.find((one) => one.id === id)
  if (!found) return undefined
  const open: Reader = { caller: id, visibility: 'full', grants: found.grants }
  return { open, account: 'acc', ...(found.hasAccount && { own: { ...open, account: 'overlay' } }) }
}

/** A walk of a layer as the eyes of a subscriber see it; undefined when its account has none of its own. */
function readAs(feed: Feed, { open, own }: Eyes, scope: 'public' | 'account'): Read | undefined {
  const reader = scope === 'public' ? open : own
  if (!reader) return undefined
  const [page] = walk(feed, { maxResults: 100 }, reader)
  const { feedVersion, pricingVersion = '', cacheScope } = pageOf(page as never)
  if (cacheScope !== scope) return undefined
  const rows = new Map(rowsOf(page as never).map((row) => [row.signal_agent_segment_id, row]))
  return { rows, feed: feedVersion, pricing: pricingVersion }
}

const canonical = (rows: Iterable<unknown>) => [...rows].map((row) => JSON.stringify(row)).sort()

async function play(t: Test, store: Store, manual: ReturnType<typeof createManualClock>, steps: Step[]) {
  const { clock } = manual
  const feed = emptyFeed()
  let fates: Fate[] = ['taken']
  let sends = 0
  const mirrors = new Map(
    SUBSCRIBERS.map(({ id }) => {
      const eyes = eyesOf(id) as Eyes
      return [id, createMirror((scope) => readAs(feed, eyes, scope))]
    }),
  )
  const heldBack = new Map<string, Body[]>()
  /** Everything that a subscriber could ever have read. */
  const readable = new Map(SUBSCRIBERS.map(({ id }) => [id, new Set<string>()]))
  let isCalm = true

  const send: Send = async ({ url, body }) => {
    const id = new URL(url).hostname.split('.')[0] as string
    const fate = fates[sends++ % fates.length] as Fate
    const told = JSON.parse(String(body)) as Body
    kinds.set(told.event.event_type, (kinds.get(told.event.event_type) ?? 0) + 1)
    const fault = schemaFault(told)
    if (fault) throw new Error(fault)
    const shown = told.event.payload.signal ?? told.event.payload.pricing_options
    if (shown && !readable.get(id)?.has(JSON.stringify(shown))) {
      throw new Error(`${id} was told what it could not read: ${JSON.stringify(shown)}`)
    }
    const mirror = mirrors.get(id)
    if (fate !== 'taken') isCalm = false
    if (fate === 'taken' || fate === 'late') mirror?.take(told)
    if (fate === 'twice') {
      mirror?.take(told)
      mirror?.take(told)
    }
    if (fate === 'held') heldBack.set(id, [...(heldBack.get(id) ?? []), told])
    if (fate === 'late')
      return { kind: 'failed', reason: 'timeout', message: 'took it, and said so too late' }
    const status = fate === 'refused' ? 503 : 200
    return { kind: 'reply', status, headers: {}, body: new Uint8Array(), url }
  }

  const publish = ({ world, account }: Pick<Step, 'world' | 'account'>) => {
    const previous = feed.current()
    const snapshot = buildSnapshot({ ...(previous && { previous }), ...world })
    const accounts = new Map(
      account ? [['overlay', { snapshot: buildSnapshot(account), gaps: [] }] as const] : [],
    )
    feed.publish(snapshot, clock.now(), { accounts })
    for (const [id, known] of readable) {
      for (const scope of ['public', 'account'] as const) {
        for (const row of readAs(feed, eyesOf(id) as Eyes, scope)?.rows.values() ?? []) {
          known.add(JSON.stringify(row))
          known.add(JSON.stringify(row.pricing_options))
        }
      }
    }
  }

  const standings = createStandings({ feed, clock })
  const announcer = createAnnouncer({
    ...{ store, standings, clock, random: () => 0.5, newId: randomUUID, eyesOf },
    webhook: createWebhook({ post: createPost({ send, signer }), now: clock.now }),
    isOpen: async () => true,
    onProblem: (problem) => t.comment(problem),
  })
  const [first, ...rest] = steps
  if (!first) return
  publish(first)
  for (const { id } of SUBSCRIBERS) {
    const job = `sub_${randomUUID()}`
    const config = { url: `https://${id}.example/`, event_types: EVERY_EVENT }
    await store.subscriptions.add({ caller: id, accountId: 'acc', subscriberId: randomUUID(), job, config })
    const versions = await standings.current(eyesOf(id) as Eyes)
    await store.jobs.add(subscriptionJob(job, id, { versions, hasMissed: false }))
    const mirror = mirrors.get(id)
    mirror?.reread('public')
    mirror?.reread('account')
  }

  /** A mirror that holds the current versions holds the current rows: what it does not know it finds out by asking. */
  function agree(): void {
    for (const [id, { layers }] of mirrors) {
      for (const scope of ['public', 'account'] as const) {
        const now = readAs(feed, eyesOf(id) as Eyes, scope)
        const layer = layers.get(scope)
        if (!layer && !now) continue
        if (!layer || !now || layer.feed !== now.feed || layer.pricing !== now.pricing) {
          if (isCalm) throw new Error(`${id}: ${scope} is not what a walk gives, and nothing was lost`)
          continue
        }
        if (JSON.stringify(canonical(layer.rows.values())) !== JSON.stringify(canonical(now.rows.values()))) {
          throw new Error(`${id}: ${scope} has the versions of a walk and other rows`)
        }
      }
    }
  }

  /** Resolves when everybody was told what is due. */
  async function settled(): Promise<void> {
    for (;;) {
      await announcer.round()
      const busy = await store.db
        .selectFrom('jobs')
        .select('id')
        .where('kind', '=', 'feed_events')
        .where((eb) => eb.or([eb('owner', 'is not', null), eb('due', '<=', clock.now())]))
        .execute()
      if (busy.length === 0) return
      await wait(1)
    }
  }

  announcer.start()
  try {
    for (const step of rest) {
      ;({ fates } = step)
      publish(step)
      announcer.published()
      await settled()
      manual.advance(1_000) // what was refused is tried again
      await settled()
      for (const [id, bodies] of heldBack) for (const body of bodies.reverse()) mirrors.get(id)?.take(body)
      heldBack.clear()
      agree()
    }
    // In the end everybody takes what comes, and whoever missed something has found out.
    fates = ['taken']
    for (let round = 0; round < 4; round += 1) {
      manual.advance(600_000)
      await settled()
    }
    agree()
  } finally {
    await announcer.close()
    await store.db.deleteFrom('subscriptions').execute()
    await store.db.deleteFrom('jobs').execute()
  }
}

test('whoever applies events holds what a walk gives, or knows that it must read again, and is told nothing more', async (t) => {
  const manual = createManualClock()
  const store = await (await embedded(t)).open({ now: manual.clock.now })
  await proven(
    t,
    3,
    fc.asyncProperty(fc.array(anyStep, { minLength: 2, maxLength: 4 }), (steps) =>
      play(t, store, manual, steps),
    ),
  )
  t.comment(JSON.stringify(Object.fromEntries(kinds)))
  t.same([...kinds.keys()].sort(), [...EVERY_EVENT].sort(), 'every kind was told')
})
