import { type ChildProcess, fork } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/upstream-world.js'
import { eyes, mirrorOf, publishNumbers } from './support/numbered-feed.js'
import { startSubscriber } from './support/subscriber.js'

const CHILD = new URL('./support/announcer-child.js', import.meta.url)
const KEY = JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }))

/** A process that tells so many subscribers, a receiver whose mirror follows, and the same feed here to compare with. */
async function stage(t: Test, subscribers = 1) {
  const folder = join(await temporaryFolder(t), 'state')
  const subscriber = await startSubscriber()
  t.teardown(() => subscriber.close())
  const { feed, publish } = publishNumbers()
  const mirror = mirrorOf(feed)
  let child: ChildProcess | undefined

  async function start(numbers: readonly number[]): Promise<void> {
    child = fork(CHILD, [`file:${folder}`, subscriber.url, KEY, String(subscribers)])
    await once(child, 'message')
    await tell(numbers)
  }
  async function tell(numbers: readonly number[]): Promise<void> {
    publish(numbers)
    child?.send(numbers)
    await once(child as ChildProcess, 'message')
  }
  async function kill(): Promise<void> {
    child?.kill('SIGKILL')
    if (child?.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }
  t.teardown(kill)
  const isCurrent = () => {
    const now = feed.see({}, eyes.open, { mode: 'wholesale' })?.versions
    const layer = mirror.layers.get('public')
    return layer?.feed === now?.feedVersion && layer?.rows.size === feed.current()?.shown.length
  }
  return { subscriber, mirror, start, tell, kill, isCurrent, feed }
}

test('killed in the middle of a delivery, it is sent again under its key, and the rest follows in order', async (t) => {
  const { subscriber, mirror, start, tell, kill, isCurrent } = await stage(t)
  let isHung = false
  subscriber.answerWith(({ body }, response) => {
    mirror.take(body)
    if (!isHung) response.writeHead(200).end()
  })
  await start([1])
  mirror.reread('public')
  await tell([1, 2])
  await until('the first is told', () => subscriber.events.length === 1)
  for (const [round, numbers] of [
    [1, [2, 3, 4, 5]],
    [2, [5, 6, 7]],
    [3, [1, 5, 8]],
  ] as const) {
    isHung = true
    // A busy machine may repeat what was told before: what is killed is the telling of these numbers.
    const known = new Set(subscriber.events.map(({ body }) => body.idempotency_key))
    await tell(numbers)
    await until('one is under way', () => !known.has(subscriber.events.at(-1)?.body.idempotency_key))
    await kill()
    const inFlight = subscriber.events.at(-1)
    const told = subscriber.events.length
    isHung = false
    await start(numbers)
    await until(`round ${round} is told`, isCurrent)
    t.equal(subscriber.events[told]?.raw, inFlight?.raw, 'first the one that nobody answered, byte for byte')
  }
  t.equal(mirror.reads(), 1, 'by events alone')
})

test('killed before it could write down what to tell, it tells after its next start', async (t) => {
  const { subscriber, mirror, start, tell, kill, isCurrent } = await stage(t)
  subscriber.answerWith(({ body }, response) => {
    mirror.take(body)
    response.writeHead(200).end()
  })
  await start([1])
  mirror.reread('public')
  await tell([1, 2])
  await until('the first is told', () => subscriber.events.length === 1)
  for (let number = 3; number < 8; number += 1) {
    const numbers = Array.from({ length: number }, (_, at) => at + 1)
    await tell(numbers)
    await kill()
    await start(numbers)
    await until(`${number} is told`, isCurrent)
  }
  const [last] = subscriber.events.slice(-1)
  t.equal(last?.body.wholesale_feed_version, mirror.layers.get('public')?.feed)
})

test('killed while many are told, each is told all of it in order, and what comes again comes under its key', async (t) => {
  const MANY = 40
  const { subscriber, start, tell, kill, feed } = await stage(t, MANY)
  const toldTo = (at: number) => subscriber.events.filter(({ body }) => body.subscriber_id === `s${at}`)
  const everybody = Array.from({ length: MANY }, (_, at) => at)
  const areCurrent = () => {
    const now = feed.see({}, eyes.open, { mode: 'wholesale' })?.versions.feedVersion
    return everybody.every((at) => toldTo(at).at(-1)?.body.wholesale_feed_version === now)
  }
  await start([1])
  await tell([1, 2])
  await until('all are told of the first', areCurrent)
  for (const [round, numbers] of [
    [1, [2, 3, 4, 5]],
    [2, [5, 6, 7]],
    [3, [1, 5, 8]],
  ] as const) {
    const before = subscriber.events.length
    await tell(numbers)
    await until('some are told', () => subscriber.events.length >= before + 10 * round)
    await kill()
    await start(numbers)
    await until(`all are told of round ${round}`, areCurrent)
  }
  for (const at of everybody) {
    const bytes = new Map<string, string>()
    let version: unknown
    for (const { body, raw } of toldTo(at)) {
      const known = bytes.get(body.idempotency_key)
      if (known !== undefined && known !== raw) t.fail(`s${at}: other bytes under one key`)
      if (known !== undefined) continue
      bytes.set(body.idempotency_key, raw)
      if (version !== undefined && body.previous_wholesale_feed_version !== version) t.fail(`s${at}: a gap`)
      version = body.wholesale_feed_version
    }
    t.ok(bytes.size >= 4, `s${at} was told ${bytes.size} events`)
  }
})
