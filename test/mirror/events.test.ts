/** A mirror that is told what changes: what it holds is what a walk gives, whatever is lost on the way. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { type Test, test } from 'tap'
import type { FeedReading } from '../../src/mirror/reading.js'
import { type Clock, systemClock } from '../../src/net/clock.js'
import { proven } from '../support/proven.js'
import { row } from '../support/upstream-world.js'
import { everyPlace, type Place } from './support/copies.js'
import { type Fate, type Mirror, startTelling, type Way } from './support/telling.js'

const untilSame = async (what: string, holds: () => Promise<boolean>) => {
  for (const end = Date.now() + 60_000; !(await holds()); ) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Nobody gives up what is on its way, however busy the machine is. */
const patient: Clock = {
  ...systemClock,
  after: (ms, task) => systemClock.after(ms === 1_000 ? 100_000 : ms, task), // but tries again as soon as ever
}
/** What is missing is soon believed to be lost. */
const hasty: Clock = { ...systemClock, after: (ms, task) => systemClock.after(ms / 5, task) }

const many = (count: number) => Array.from({ length: count }, (_, at) => row(at))
const dearer = [{ pricing_option_id: 'po', model: 'cpm', cpm: 9, currency: 'USD' }]

type Follower = {
  place: Place
  way: Way
  readings: FeedReading[]
  mirror: Mirror
  /** Another one in its place. */
  open(): Promise<Mirror>
}

/** A mirror of each kind, each told at an account of its own. */
async function startMirrors(t: Test, clock: Clock) {
  const telling = await startTelling(t, many(24))
  const followers: Follower[] = []
  for (const [at, place] of (await everyPlace(t)).entries()) {
    const way = await telling.way()
    const readings: FeedReading[] = []
    const options = {
      clock,
      listen: { url: way.url, port: 0, brand: `acme${at}.example` },
      onReading: (reading: FeedReading) => void readings.push(reading),
    }
    const open = async () => {
      const mirror = await telling.mirrorAt(place, way, options)
      void mirror.follow()
      return mirror
    }
    followers.push({ place, way, readings, open, mirror: await open() })
  }
  await untilSame('all are subscribed, and have walked and read once more', async () => {
    const areReady = followers.every(({ readings }) => readings.length >= 2)
    return areReady && (await telling.subscribed()) === followers.length
  })
  return { telling, followers }
}

test('a change is in every copy by what is told, without a walk, and a restart goes on', async (t) => {
  const { telling, followers } = await startMirrors(t, patient)
  for (const { readings } of followers) readings.length = 0
  await telling.publish([
    ...many(20),
    row(20, { name: 'Line \u2028 and "signal_agent_segment_id":"segment_3"' }),
    row(21, { pricing_options: dearer }),
    row(22),
    row(70),
  ])
  const feed = await telling.feedNow()
  for (const { place, way, readings } of followers) {
    await untilSame('all is applied', async () => readings.length > 0)
    t.match(readings, [{ kind: 'applied', state: { rows: 24 } }], place.out)
    t.same(await place.rows(), feed, 'created, updated, priced and removed')
    t.ok(way.passed() >= 4)
    readings.length = 0
  }
  const renamed = many(24).map((one) => ({ ...one, name: 'Many at once' }))
  await telling.publish(renamed)
  for (const { place, readings } of followers) {
    await untilSame('a bulk change is read', async () => readings.length > 0)
    t.match(readings, [{ kind: 'replaced', state: { rows: 24 } }], place.out)
  }
  for (const { mirror } of followers) await mirror.close()
  await telling.publish(renamed.slice(1))
  for (const { place, open } of followers) {
    await open()
    await untilSame('what was told meanwhile is found', async () => (await place.rows()).length === 23)
  }
  t.equal(await telling.subscribed(), followers.length, 'the same subscriptions')
})

test('whatever is lost, repeated or late on the way: the copy is the feed, or it is read again', async (t) => {
  const { telling, followers } = await startMirrors(t, hasty)
  const anyStep = fc.record({
    rows: fc.array(
      fc.record({ name: fc.constantFrom('A', 'B'), isDear: fc.boolean(), isThere: fc.boolean() }),
      {
        minLength: 6,
        maxLength: 6,
      },
    ),
    fates: fc.array(fc.constantFrom<Fate>('taken', 'taken', 'taken', 'lost', 'twice', 'late'), {
      minLength: 1,
      maxLength: 5,
    }),
  })
  let count = 0
  const rowsOf = (rows: { name: string; isDear: boolean; isThere: boolean }[]) => {
    count += 1
    const changing = rows.flatMap(({ name, isDear, isThere }, at) =>
      isThere ? [row(at, { name, ...(isDear && { pricing_options: dearer }) })] : [],
    )
    return [...changing, row(6, { name: `Count ${count}` }), ...many(24).slice(7)]
  }
  /** One more change, with nothing lost on its way: all hold it. */
  async function settled(): Promise<void> {
    for (const { way } of followers) way.fateIs(() => 'taken')
    await telling.publish(rowsOf([]))
    const feed = await telling.feedNow()
    for (const { place } of followers) {
      await untilSame(`${place.out} holds the feed`, async () => isDeepStrictEqual(await place.rows(), feed))
    }
  }
  const property = fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 3 }), async (steps) => {
    for (const { rows, fates } of steps) {
      for (const [at, { way }] of followers.entries()) {
        let told = at
        way.fateIs(() => fates[told++ % fates.length] as Fate)
      }
      const version = await telling.publish(rowsOf(rows))
      await untilSame('it was told', async () => followers.every(({ way }) => way.arrived() === version))
    }
    await settled()
  })
  await proven(t, 1, property)
  const isSeen = (wanted: FeedReading['kind']) =>
    followers.some(({ readings }) => readings.some(({ kind }) => kind === wanted))
  // A busy machine may have told all of that too late to be applied. A change that comes alone is not late.
  await untilSame('what can be is applied', async () => {
    if (!isSeen('applied')) await settled()
    return isSeen('applied')
  })
  t.ok(isSeen('replaced'), 'and what could not be is read')
})
