import { generateKeyPairSync } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { createCourier } from '../../src/events/courier.js'
import type { Letter } from '../../src/events/letter.js'
import type { SendOutcome } from '../../src/net/send.js'
import { publicJwk } from '../../src/signing/key.js'
import { watchThreads } from '../composition/support/threads.js'
import { until } from '../support/upstream-world.js'
import { type Got, startSubscriber } from './support/subscriber.js'

const THREAD = 'courier-thread'
const threads = watchThreads()
const key = { keyId: 'k', privateKey: generateKeyPairSync('ed25519').privateKey }
const loopback = { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} }
const nowhere = { ...loopback, allowNetworks: [] }

type Test = { teardown(task: () => unknown): void }

function opened(t: Test, options: Partial<Parameters<typeof createCourier>[0]> = {}) {
  const courier = createCourier({ policy: loopback, key, ...options })
  t.teardown(courier.close)
  return courier
}

const letterTo = (url: string, more: Partial<Letter> = {}): Letter => ({
  ...{ caller: 'a', url, body: '{"a":"ä"}', timeoutMs: 120_000, maxBytes: 1_000, isHeadEnough: true },
  ...more,
})

test('letters are signed and sent by a thread, which starts with the first', async (t) => {
  const subscriber = await startSubscriber({ keys: () => [publicJwk(key)] })
  t.teardown(() => subscriber.close())
  const before = threads.started(THREAD)
  const { post } = opened(t)
  t.equal(threads.started(THREAD), before)
  const signedAt = Date.now()
  const outcomes = await Promise.all([
    post(letterTo(subscriber.url, { signedAt, headers: { 'x-one': '1' } })),
    post(letterTo(subscriber.url, { signedAt })),
    post(letterTo('http://127.0.0.1:1/')),
  ])
  t.same(
    outcomes.map((outcome) => (outcome.kind === 'reply' ? outcome.status : outcome.reason)),
    [200, 200, 'unreachable'],
  )
  t.equal(threads.started(THREAD), before + 1)
  t.same(
    subscriber.faults.filter((fault) => fault.startsWith('signature')),
    [],
  )
  t.same(
    subscriber.events.map(({ raw }) => raw),
    ['{"a":"ä"}', '{"a":"ä"}'],
  )
  t.equal(subscriber.events.filter(({ headers }) => headers['x-one'] === '1').length, 1)
})

test('the body of an answer comes with it where it is wanted', async (t) => {
  const subscriber = await startSubscriber({ answer: (_, response) => void response.end('x'.repeat(600)) })
  t.teardown(() => subscriber.close())
  const { post } = opened(t)
  const asked = (more: Partial<Letter>) => post(letterTo(subscriber.url, { isHeadEnough: false, ...more }))
  const whole = await asked({})
  t.equal(whole.kind === 'reply' && Buffer.from(whole.body).toString(), 'x'.repeat(600))
  t.match(await asked({ maxBytes: 100 }), { kind: 'failed', reason: 'too_large' })
})

test('what is to be signed without a key is not sent', async (t) => {
  const subscriber = await startSubscriber()
  t.teardown(() => subscriber.close())
  const { post } = opened(t, { key: undefined })
  await t.rejects(post(letterTo(subscriber.url, { signedAt: Date.now() })), /without a signing key/)
  t.match(await post(letterTo(subscriber.url)), { kind: 'reply', status: 200 })
  t.equal(subscriber.events.length, 1)
})

test('each letter follows the policy of its time, also by a thread that starts later', async (t) => {
  const subscriber = await startSubscriber()
  t.teardown(() => subscriber.close())
  const { post, reconfigure } = opened(t, { policy: nowhere })
  reconfigure(loopback)
  t.match(await post(letterTo(subscriber.url)), { kind: 'reply' })
  const first = post(letterTo(subscriber.url))
  await until('it has a connection', () => subscriber.events.length === 2)
  reconfigure(nowhere)
  const second = post(letterTo(subscriber.url))
  t.match(await first, { kind: 'reply' })
  t.match(await second, { kind: 'failed', reason: 'refused' })
  await threads.end(THREAD)
  t.match(await post(letterTo(subscriber.url)), { kind: 'failed', reason: 'refused' })
  t.equal(subscriber.events.length, 2)
})

test('where the thread ends, what is under way has failed, and the next letter has another thread', async (t) => {
  const subscriber = await startSubscriber({ answer: () => {} })
  t.teardown(() => subscriber.close())
  const { post } = opened(t)
  const hanging = [post(letterTo(subscriber.url)), post(letterTo(subscriber.url))]
  await until('both are under way', () => subscriber.events.length === 2)
  await threads.end(THREAD)
  const reason = { kind: 'failed', reason: 'unreachable', message: /has ended/ }
  t.match(await Promise.all(hanging), [reason, reason])
  subscriber.answerWith((_, response) => void response.end())
  t.match(await post(letterTo(subscriber.url)), { kind: 'reply', status: 200 })
  threads.allow(THREAD, 0)
  await threads.end(THREAD)
  t.match(await post(letterTo(subscriber.url)), {
    ...{ kind: 'failed', reason: 'unreachable' },
    message: /no thread can be started/,
  })
  threads.allow(THREAD, Number.POSITIVE_INFINITY)
  t.match(await post(letterTo(subscriber.url)), { kind: 'reply', status: 200 })
})

test('however many letters of a few callers hang, places at their origin are left for those of others', async (t) => {
  let answer = ({ headers }: Got, response: ServerResponse) =>
    headers['x-hangs'] ? void waiting.push(response) : void response.end()
  const waiting: ServerResponse[] = []
  const subscriber = await startSubscriber({ answer: (got, response) => answer(got, response) })
  t.teardown(() => subscriber.close())
  const { post } = opened(t)
  const hanging: Promise<SendOutcome>[] = []
  for (const [caller, count] of [
    ['a', 32],
    ['b', 16],
    ['c', 8],
  ] as const) {
    const before = waiting.length
    for (let at = 0; at < 40; at += 1) {
      hanging.push(post(letterTo(subscriber.url, { caller, headers: { 'x-hangs': '1' } })))
    }
    t.match(await post(letterTo(subscriber.url, { caller: `not ${caller}`, timeoutMs: 20_000 })), {
      status: 200,
    })
    await until('they are under way', () => waiting.length >= before + count)
    t.equal(waiting.length, before + count)
    t.match(await post(letterTo(subscriber.url, { caller, timeoutMs: 1 })), {
      reason: 'timeout',
      message: /no place/,
    })
  }
  answer = (_, response) => void response.end()
  for (const response of waiting) response.end()
  for (const outcome of await Promise.all(hanging)) t.match(outcome, { status: 200 })
})

test('closing ends what is under way or waits for a place, and nothing is sent afterwards', async (t) => {
  const subscriber = await startSubscriber({ answer: () => {} })
  t.teardown(() => subscriber.close())
  const { post, close } = opened(t)
  const hanging = Array.from({ length: 33 }, () => post(letterTo(subscriber.url)))
  await until('as many as may are under way', () => subscriber.events.length === 32)
  await close()
  const ends = { kind: 'failed', reason: 'aborted' }
  for (const outcome of await Promise.all(hanging)) t.match(outcome, ends)
  t.match(await post(letterTo(subscriber.url)), ends)
  t.equal(subscriber.events.length, 32)
})
