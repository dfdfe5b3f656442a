import { test } from 'tap'
import { createSenderKeys, isSameEvents } from '../../src/events/receiver.js'
import type { Send } from '../../src/net/send.js'

const MINUTE = 60_000

test('where a sender`s keys are is asked again after ten minutes', async (t) => {
  const sender = { agentUrl: 'https://far.example/mcp', brandJsonUrl: 'https://far.example/brand.json' }
  const brand = JSON.stringify({ agents: [{ url: sender.agentUrl }] })
  let asked = 0
  const send: Send = async ({ url }) => {
    if (url !== sender.brandJsonUrl) return { kind: 'failed', reason: 'unreachable', message: 'no keys' }
    asked += 1
    return { kind: 'reply', url, status: 200, headers: {}, body: Buffer.from(brand) }
  }
  let now = 0
  const keyOf = createSenderKeys({ send, now: () => now })
  for (const [minutes, times] of [
    [0, 1],
    [9, 1],
    [10, 2],
    [11, 2],
  ] as const) {
    now = minutes * MINUTE
    await keyOf(sender, 'a')
    t.equal(asked, times, `after ${minutes} minutes`)
  }
})

test('the events that an agent names are the same in any order, and no others', (t) => {
  const own = ['signal.created', 'signal.priced']
  t.ok(isSameEvents(own, own.toReversed()))
  t.notOk(isSameEvents(own, [...own, 'signal.removed']))
  t.notOk(isSameEvents(own, ['signal.created', 'signal.created']))
  for (const named of [undefined, null, 'signal.created signal.priced', { length: 2 }]) {
    t.notOk(isSameEvents(own, named), String(named))
  }
  t.end()
})
