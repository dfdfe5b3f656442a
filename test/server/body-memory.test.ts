import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { createBodyReader } from '../../src/server/answer/body-reader.js'
import type { RpcBody } from '../../src/server/answer/json-rpc.js'
import { proven } from '../support/proven.js'

const bytes = (text: string) => Buffer.from(text)

/** What a body says, as far as it can be compared. */
function said(body: RpcBody): unknown {
  if (body.kind !== 'single' || body.message.kind !== 'request') return body
  const { id, method, raw } = body.message
  // Which name a message has is not read, so it is not remembered.
  const params = JSON.parse(JSON.stringify(body.message.params ?? null), (key, value) =>
    key === 'message' && typeof value?.messageId === 'string' && value.messageId !== ''
      ? { messageId: 'm' }
      : value,
  )
  return { id, method, params, context: raw(['params', 'arguments', 'context']) }
}

const ask = (id: unknown, args: object = {}, rest: object = {}) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { arguments: { m: 'wholesale', ...args } },
    ...rest,
  })

test('a question that came twice is the same object from then on, under any id', (t) => {
  const read = createBodyReader()
  const params = (text: string) => {
    const body = read(bytes(text))
    if (body.kind !== 'single' || body.message.kind !== 'request') throw new Error(`not read: ${text}`)
    return body.message
  }
  t.notOk(params(ask(1)).comesAgain, 'most are asked once, and leave nothing behind')
  const first = params(ask(1))
  for (const id of [2, 0, 999_999_999]) {
    const again = params(ask(id))
    t.equal(again.params, first.params)
    t.equal(again.id, String(id))
    t.ok(again.comesAgain)
  }
  t.not(params(ask('a')).params, first.params, 'a text stands for no number')
  t.equal(params(ask('b ☃')).params, params(ask('a')).params)
  t.equal(params(ask('b ☃')).id, '"b ☃"')
  for (const inner of [2, 3, 2, 3]) params(ask(1, { id: inner }))
  t.not(
    params(ask(1, { id: 2 })).params,
    params(ask(1, { id: 3 })).params,
    'an id elsewhere is part of the question',
  )
  const message = (messageId: unknown, id: unknown) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'SendMessage',
      params: { message: { messageId, m: 'wholesale' } },
    })
  params(message('w', 0))
  t.equal(params(message('x', 1)).params, params(message('y', 2)).params)
  t.not(params(message('', 1)).params, params(message('y', 2)).params)
  for (let time = 0; time < 3; time += 1)
    t.notOk(params(ask(1, { push_notification_config: {} })).comesAgain, 'secrets are not kept')
  t.end()
})

test('a body is read as it would be without any memory', (t) => {
  const id = fc.oneof(
    ...[
      fc.nat(),
      fc.integer(),
      fc.double(),
      fc.string(),
      fc.constantFrom(null, true, '', '"', '\\', 'a\u0000b'),
    ],
  )
  const args = fc.oneof(
    fc.constant({}),
    fc.record({ id, messageId: id, context: fc.constantFrom({ a: 1 }, { a: 1.5 }) }, { requiredKeys: [] }),
  )
  const spacing = fc.constantFrom(undefined, 1)
  const text = fc.tuple(id, args, id, spacing).map(([name, given, messageId, space]) =>
    JSON.stringify(
      {
        ...{ jsonrpc: '2.0', id: name, method: 'tools/call' },
        params: { arguments: { m: 'wholesale', ...given }, message: { messageId } },
      },
      null,
      space,
    ),
  )
  // A body that somebody wrote wrongly: a character changed, left out or doubled.
  const spoil = ([whole, at, put]: [string, number, string]) => {
    const place = at % whole.length
    return whole.slice(0, place) + put + whole.slice(place + (at % 2))
  }
  const spoilt = fc.tuple(text, fc.nat(), fc.constantFrom('', '0', '"', '\u0000', ',', ' ')).map(spoil)
  const property = fc.property(fc.array(fc.oneof(text, spoilt), { maxLength: 30 }), (texts) => {
    const read = createBodyReader()
    // What comes right after its like: the same, under another id, and spoilt at each of a few places.
    const next = texts
      .slice(0, 6)
      .flatMap((one, n) => [
        ...[
          one,
          one,
          one.replace(/"id":\s?[^,]*/, `"id":${n}`),
          one.replace(/"messageId":\s?"x*/, '"messageId":"y'),
        ],
        ...[3, 8, 13, 21, 34, 55, 89].flatMap((at) => [
          spoil([one, at * n, '0']),
          spoil([one, at + n, '"']),
          one,
        ]),
      ])
    return [...texts, ...texts, ...next].every((one) =>
      isDeepStrictEqual(said(read(bytes(one))), said(createBodyReader()(bytes(one)))),
    )
  })
  proven(t, 16, property)
  t.pass('nothing was read otherwise')
  t.end()
})
