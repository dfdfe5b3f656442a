import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { endedAmong, standingFor, unwantedNow } from '../../src/activation/holders.js'
import type { Call } from '../../src/store/call.js'
import type { Action, Entry, Ledger, NewEntry, Settlement } from '../../src/store/records/ledger.js'
import { onEveryStorage } from '../store/support/storages.js'
import { proven } from '../support/proven.js'

const AGENT = 'https://signals.northwind.example/mcp'
const HOLDERS = [
  { caller: 'acme', seenAs: 'shared' },
  { caller: 'acme', seenAs: 'shared', account: '{"account_id":"a"}' },
  { caller: 'acme', seenAs: 'own' },
  { caller: 'other', seenAs: 'shared' },
  { caller: 'stranger', seenAs: 'shared' },
] as const
const PLACES = [
  ...['the-trade-desk', 'dv360'].map((platform) => ({ type: 'platform' as const, platform })),
  ...['a', 'b'].map((account) => ({ type: 'platform' as const, platform: 'the-trade-desk', account })),
]
const OUTCOMES = [
  ...(['completed', 'completed', 'completed', 'unknown'] as const),
  ...(['failed', 'superseded', 'submitted', 'pending'] as const),
]
const OFFER = {
  handle: 'sig',
  signalHandle: 'sig',
  offerHandle: 'sig.o',
  upstream: 'northwind',
  agentUrl: AGENT,
}

const wish = fc.record({
  holder: fc.constantFrom(...HOLDERS),
  action: fc.constantFrom<Action>('activate', 'deactivate'),
  destinations: fc.subarray(PLACES, { minLength: 1 }),
  isLeftOn: fc.boolean(),
  outcome: fc.constantFrom(...OUTCOMES),
  /** Whether its outcome comes only after all others. */
  isLate: fc.boolean(),
})

type Place = { type: 'platform'; platform: string; account?: string }
type Holder = (typeof HOLDERS)[number]

/** A platform is all of its accounts. */
const covers = (one: Place, part: Place) =>
  one.platform === part.platform && (one.account === undefined || one.account === part.account)
const mayBeOne = (one: Place, another: Place) => covers(one, another) || covers(another, one)
const nameOf = ({ caller, account }: { caller: string; account?: string }) => `${caller} ${account}`
const placesOf = ({ destinations }: Entry) => destinations as Place[]

const isOpen = ({ outcome }: Entry) => outcome === 'pending' || outcome === 'submitted'

/** Whether others than the holder have a place on, told the long way. */
function isOnForOthers(entries: readonly Entry[], holder: Holder, place: Place): boolean {
  const seen = entries.filter(
    ({ caller, seenAs, outcome }) =>
      outcome !== 'failed' &&
      outcome !== 'superseded' &&
      (caller === holder.caller || (seenAs === 'shared' && holder.seenAs === 'shared')),
  )
  return seen.some(
    (on) =>
      on.action === 'activate' &&
      nameOf(on) !== nameOf(holder) &&
      placesOf(on).some(
        (one) =>
          mayBeOne(one, place) &&
          !seen.some(
            (off) =>
              off.action === 'deactivate' &&
              !isOpen(off) &&
              off.seq > on.seq &&
              nameOf(off) === nameOf(on) &&
              placesOf(off).some((ended) => covers(ended, one)),
          ),
      ),
  )
}

/**
 * What is told of a segment by these entries, now, when one of those that are open fails, and when somebody has switched a place
 * off.
 */
async function toldBy(entries: readonly Entry[], segment: string) {
  const standing = HOLDERS.map((holder) => JSON.stringify(standingFor(entries, holder)))
  async function wishesAfter(ended: NewEntry, left: readonly Entry[]) {
    const ledger = { ofSegment: async () => left, wasLeftOn: async () => true } as unknown as Ledger
    const call = { ...ended, segment, key: 'key', args: { action: ended.action } } as unknown as Call
    const { entries: again } = await unwantedNow({ ledger }, call)
    return again.map(({ caller, destinations }) => ({ caller, destinations }))
  }
  const failed = entries
    .filter((entry) => isOpen(entry) && entry.action === 'activate')
    .map((failing) =>
      wishesAfter(
        failing,
        entries.filter((one) => one !== failing),
      ),
    )
  const isAnyOn = standing.some((one) => one !== '[]')
  const off = (isAnyOn ? HOLDERS : [])
    .flatMap((holder) => PLACES.map((place) => ({ ...OFFER, ...holder, destinations: [place] })))
    .map((one): Entry => {
      const later = { id: 'later', seq: 100, createdAt: 0, updatedAt: 0, segmentId: segment }
      return { ...one, ...later, action: 'deactivate', outcome: 'completed' }
    })
    .map((later) => wishesAfter(later, [later, ...entries]))
  return { standing, failed: await Promise.all(failed), off: await Promise.all(off) }
}

async function forgetAll(ledger: Ledger, before: number): Promise<void> {
  let at = await ledger.forget(before, 5, endedAmong)
  while (at) at = await ledger.forget(before, 5, endedAmong, at)
}

onEveryStorage('what is on is told alike by all entries and by those that are kept', async (t, storage) => {
  const { ledger } = await storage.open()
  let run = 0
  await proven(
    t,
    25,
    fc.asyncProperty(fc.array(wish, { minLength: 1, maxLength: 15 }), async (wishes) => {
      run += 1
      const segment = `nw_${run}`
      const late: (() => Promise<void>)[] = []
      for (const [at, { holder, action, destinations, isLeftOn, outcome, isLate }] of wishes.entries()) {
        const id = `${segment}-${(at * 7) % 15}` // as ids are: in no order
        const entry: NewEntry = {
          ...OFFER,
          ...holder,
          id,
          action,
          destinations,
          segmentId: segment,
          seq: at + 1,
        }
        storage.clock.now += 1
        await ledger.recordAll([entry])
        if (outcome === 'pending') continue
        const isLive = action === 'activate' || isLeftOn
        const deployments = destinations.map((one) => ({ ...one, is_live: isLive }))
        const end = () => ledger.settleAll(new Map([[id, { outcome, deployments } as Settlement]]))
        if (isLate) late.push(end)
        else await end()
      }
      for (const end of late.reverse()) await end()
      const all = (await ledger.query({ handle: 'sig' }, 1_000))
        .filter(({ segmentId }) => segmentId === segment)
        .sort((one, other) => other.seq - one.seq)
      for (const holder of HOLDERS) {
        const standing = standingFor(all, holder)
        for (const place of PLACES) {
          const isOn = standing.some((one) => mayBeOne(one as Place, place))
          deepEqual(isOn, isOnForOthers(all, holder, place), `${place.platform} for ${nameOf(holder)}`)
        }
      }
      const told = await toldBy(all, segment)
      t.same(
        await toldBy(await ledger.ofSegment(AGENT, segment), segment),
        told,
        'by those that are not past',
      )
      await forgetAll(ledger, storage.clock.now)
      const kept = await ledger.ofSegment(AGENT, segment)
      deepEqual(await toldBy(kept, segment), told, 'by those that are kept')
      const isOneToUpstream = all.every(({ seenAs }) => seenAs === 'shared')
      const isOff = told.standing.every((one) => one === '[]') && !kept.some(isOpen)
      if (isOneToUpstream && isOff) deepEqual(kept, [], 'nothing is kept where nothing is on')
    }),
  )
})

onEveryStorage('however often another switches on and off, what is on stays known', async (t, storage) => {
  const { ledger } = await storage.open()
  const destinations = [{ type: 'platform', platform: 'dv360' }]
  const entry = (seq: number, caller: string, action: Action = 'activate'): NewEntry => ({
    ...{ ...OFFER, id: `e${seq}`, caller, action, destinations, segmentId: 'nw', seenAs: 'shared', seq },
  })
  const rounds = Array.from({ length: 600 }, (_, at) => [
    entry(2 * at + 2, 'other'),
    entry(2 * at + 3, 'other', 'deactivate'),
  ])
  const asked = [entry(1, 'acme'), ...rounds.flat()]
  await ledger.recordAll(asked)
  for (const part of [asked.slice(0, 700), asked.slice(700)])
    await ledger.settleAll(new Map(part.map(({ id }) => [id, { outcome: 'completed' }])))
  const entries = await ledger.ofSegment(AGENT, 'nw')
  t.same(
    entries.map(({ seq }) => seq),
    [1_201, 1_200, 1],
  )
  t.same(await ledger.history('acme', 'sig'), entries.slice(2))
  await ledger.forget(storage.clock.now, 2_000, endedAmong)
  t.same(await ledger.query({}, 10), entries.slice(2), 'the others leave')
})

onEveryStorage('of a segment that hundreds have on, what ended is forgotten', async (t, storage) => {
  const { ledger } = await storage.open()
  const destinations = [{ type: 'platform', platform: 'dv360' }]
  const entry = (seq: number, account: number, action: Action = 'activate'): NewEntry => ({
    ...{
      ...OFFER,
      id: `e${seq}`,
      caller: 'acme',
      action,
      destinations,
      segmentId: 'nw',
      seenAs: 'shared',
      seq,
    },
    ...{ account: `{"account_id":"${account}"}`, upstreamAccount: { account_id: `${account}` } },
  })
  const on = Array.from({ length: 310 }, (_, at) => entry(at + 1, at))
  const off = on.filter((_, at) => at % 2 === 0).map((_, at) => entry(1_000 + at, 2 * at, 'deactivate'))
  await ledger.recordAll([...on, ...off])
  for (const part of [on, off])
    await ledger.settleAll(new Map(part.map(({ id }) => [id, { outcome: 'completed' }])))
  await ledger.forget(storage.clock.now, 200, endedAmong)
  const kept = await ledger.query({}, 1_000)
  t.same(
    kept.map(({ seq }) => seq).sort((one, other) => one - other),
    on.filter((_, at) => at % 2 === 1).map(({ seq }) => seq),
  )
})

test('a deactivation ends what it names, also where it names an account and its platform', (t) => {
  const of = (caller: string, seq: number, action: Action, destinations: readonly object[]): Entry => ({
    ...{ ...OFFER, id: `${seq}`, caller, action, destinations, segmentId: 'nw', seenAs: 'shared', seq },
    ...{ outcome: 'completed', createdAt: seq, updatedAt: seq },
  })
  const [desk, , a, b] = PLACES as [object, object, object, object]
  const entries = [
    of('acme', 3, 'deactivate', [a, desk]),
    of('other', 2, 'activate', [b]),
    of('acme', 1, 'activate', [b]),
  ]
  t.same(standingFor(entries, { caller: 'other', seenAs: 'shared' }), [], 'nothing of acme is on')
  t.same(standingFor(entries, { caller: 'acme', seenAs: 'shared' }), [b])
  const again = [of('acme', 4, 'deactivate', [a]), ...entries]
  t.same(
    standingFor(again, { caller: 'other', seenAs: 'shared' }),
    [],
    'also when a part of it is named again',
  )
  t.end()
})
