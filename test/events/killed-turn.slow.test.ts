/** Processes that share a database and take turns at telling: the one whose turn it is is killed in the middle of a batch. */
import { type ChildProcess, fork } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { eyes, mirrorOf, publishNumbers } from './support/numbered-feed.js'
import { startSubscriber } from './support/subscriber.js'

const CHILD = new URL('./support/announcer-child.js', import.meta.url)
const KEY = JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }))

test('killed in the middle of its turn and of a batch, another goes on with the same events in their order', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const subscriber = await startSubscriber()
  t.teardown(() => subscriber.close())
  const { feed, publish } = publishNumbers()
  const mirror = mirrorOf(feed)
  async function start(): Promise<ChildProcess> {
    const child = fork(CHILD, [storage?.url ?? '', subscriber.url, KEY])
    t.teardown(() => child.kill('SIGKILL'))
    await once(child, 'message')
    return child
  }
  const tell = async (children: readonly ChildProcess[], numbers: readonly number[]) => {
    publish(numbers)
    for (const child of children) {
      child.send(numbers)
      await once(child, 'message')
    }
  }
  let hangsAt = Number.POSITIVE_INFINITY
  subscriber.answerWith(({ body }, response) => {
    if (subscriber.events.length >= hangsAt) return
    mirror.take(body)
    response.writeHead(200).end()
  })
  const one = await start()
  await tell([one], [1])
  mirror.reread('public')
  await tell([one], [1, 2])
  await until('the first is told', () => subscriber.events.length === 1)
  const other = await start()
  await tell([other], [1, 2])

  hangsAt = 4
  await tell([one, other], [1, 2, 3, 4, 5, 6, 7])
  await until('the third of five is under way', () => subscriber.events.length === 4)
  one.kill('SIGKILL')
  await once(one, 'exit')
  const before = subscriber.events.map(({ body, raw }) => ({ key: body.idempotency_key, raw }))
  hangsAt = Number.POSITIVE_INFINITY
  const isCurrent = () => {
    const now = feed.see({}, eyes.open, { mode: 'wholesale' })?.versions
    return mirror.layers.get('public')?.feed === now?.feedVersion
  }
  await until('the other tells the rest', isCurrent)
  t.equal(mirror.reads(), 1, 'by events alone, none missing and none out of order')
  const after = subscriber.events
    .slice(before.length)
    .map(({ body, raw }) => ({ key: body.idempotency_key, raw }))
  const inFlight = before.at(-1)
  t.same(
    after.find(({ key }) => key === inFlight?.key),
    inFlight,
    'what nobody answered comes again, byte for byte',
  )
  const keys = new Set([...before, ...after].map(({ key }) => key))
  t.equal(keys.size, 6, 'no event under two keys')
})
