import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { createConfigCheck } from '../../src/events/notification-config.js'
import { type Claim, createSubscriptions, type Subscribing } from '../../src/events/subscriptions.js'
import { webhookPolicy } from '../../src/events/webhook.js'
import { embedded } from '../store/support/storages.js'

type Wanted = Parameters<Subscribing['prove']>[1][number]

const config = (subscriber_id: string, more: object = {}) => ({
  ...{
    subscriber_id,
    url: `https://${subscriber_id}.example/`,
    event_types: ['signal.priced'],
    active: true,
  },
  ...more,
})
const wanted = (accountId: string, count: number): Wanted => ({
  accountId,
  configs: Array.from({ length: count }, (_, at) => config(`s${at}`)),
})

test('a caller can have so many subscriptions, and so many places asked in a minute', async (t) => {
  const store = await (await embedded(t)).open()
  const asked: Claim[] = []
  let now = 0
  const { prove, keep } = createSubscriptions({
    ...{ store, newId: randomUUID, policy: () => webhookPolicy({ webhookNetworks: [] }) },
    delivering: {
      async challenge(_, claim) {
        asked.push(claim)
        return undefined
      },
      now: () => now,
      standings: { current: async () => undefined },
      eyesOf: () => undefined,
      onSubscribed: () => {},
    },
  })
  const many = Array.from({ length: 11 }, (_, at) => wanted(`acc_${at}`, 10))
  const first = await prove('buyer', many)
  t.equal(asked.length, 100, 'nobody is asked for what is too much')
  t.equal(first.problemOf(many[9] as Wanted), undefined)
  t.match(first.problemOf(many[10] as Wanted), {
    code: 'INVALID_REQUEST',
    path: 'notification_configs[0].active',
  })
  for (const one of many.slice(0, 10)) {
    await store.write((repositories) => keep(repositories, 'buyer', { ...one, before: [] }, first))
  }
  const again = await prove('buyer', [many[0] as Wanted])
  t.equal(asked.length, 100, 'what was proved is not asked again')
  t.equal(again.problemOf(many[0] as Wanted), undefined)
  const moved: Wanted = { accountId: 'acc_0', configs: [config('s0', { url: 'https://elsewhere.example/' })] }
  for (let change = 0; change < 100; change += 1) await prove('buyer', [moved])
  t.equal(asked.length, 200)
  const refused = await prove('buyer', [moved])
  t.equal(asked.length, 200)
  t.match(refused.problemOf(moved), { code: 'VALIDATION_ERROR', message: /wait a minute/ })
  await prove('other', [{ ...moved, accountId: 'acc_other' }])
  t.equal(asked.length, 201, 'a bound of its own for each caller')
  now += 60_001
  t.equal((await prove('buyer', [moved])).problemOf(moved), undefined)
})

test('a place is told of changes at any public address, and at no other', (t) => {
  const rules = { delivers: true, policy: webhookPolicy({ webhookNetworks: [] }) }
  const isTaken = (url: string) => createConfigCheck(rules)([config('s', { url })]).length === 0
  for (const host of ['a.example', '8.8.8.8', '[2001:4860:4860::8888]'])
    t.ok(isTaken(`https://${host}/`), host)
  for (const host of ['a', '127.0.0.1', '[::1]', '[fd00::1]']) t.notOk(isTaken(`https://${host}/`), host)
  t.notOk(isTaken('http://a.example/'))
  t.end()
})

const RULES = { delivers: true, policy: webhookPolicy({ webhookNetworks: [] }) }

test('whatever stands in a subscription is told as its fault', (t) => {
  const wrong = (more: object) => createConfigCheck(RULES)([config('s', more)]).map(({ path }) => path)
  const at = 'notification_configs[0]'
  for (const event of [{ toString: 1 }, [{ toString: 1 }], null, 7, '__proto__'])
    t.strictSame(wrong({ event_types: [event] }), [`${at}.event_types[0]`], JSON.stringify(event))
  const secret = { schemes: ['Bearer'], credentials: 'x'.repeat(32) }
  t.strictSame(wrong({ authentication: secret }), [])
  t.strictSame(wrong({ authentication: { ...secret, more: 1 } }), [`${at}.authentication`])
  t.strictSame(wrong({ urll: 1 }), [at])
  t.end()
})

test('of many faults some are told, and in a request of many accounts one of each', (t) => {
  const wrongIn = createConfigCheck(RULES)
  const event_types = Array.from({ length: 50_000 }, (_, at) => `signal.creatd${at}`)
  const before = process.cpuUsage().user
  const counts = Array.from({ length: 20 }, () => wrongIn([config('s', { event_types })]).length)
  t.strictSame(counts, [50, 50, 50, 50, ...Array.from({ length: 16 }, () => 1)])
  t.equal(wrongIn([config('s')]).length, 0)
  t.ok(process.cpuUsage().user - before < 2_000_000, 'the rest is not looked at')
  t.end()
})
