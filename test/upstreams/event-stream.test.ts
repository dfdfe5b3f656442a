import fc from 'fast-check'
import { test } from 'tap'
import { createEventStream } from '../../src/upstreams/agent/event-stream.js'
import { proven } from '../support/proven.js'

function read(text: Buffer, cuts: readonly number[] = []) {
  const stream = createEventStream(text.length, (message) =>
    message.includes('last') ? 'last' : 'candidate',
  )
  const take = stream.begin()
  const ends = [...cuts.map((cut) => cut % (text.length + 1)), text.length].sort((a, b) => a - b)
  let from = 0
  for (const end of ends) {
    const chunk = Buffer.from(text.subarray(from, end))
    const isEnough = take(chunk)
    chunk.fill('?') // whoever reads from a socket uses its memory again
    if (isEnough) break
    from = end
  }
  const messages = stream.end().map((message) => Buffer.from(message).toString())
  return { messages, id: stream.lastEventId(), retry: stream.retryMs() }
}

test('events are read as the standard says, however lines end and chunks fall', async (t) => {
  const lines = [
    '\ufeff: hello',
    'event: message',
    'data: one',
    'data:two',
    'id: 7',
    'retry: 20',
    '',
    'data',
    '',
  ]
  const expected = { messages: ['one\ntwo', ''], id: '7', retry: 20 }
  for (const end of ['\n', '\r', '\r\n'])
    t.same(read(Buffer.from(lines.map((line) => line + end).join(''))), expected)
  const text = Buffer.from(lines.map((line) => `${line}\r\n`).join(''))
  proven(
    t,
    50,
    fc.property(fc.array(fc.nat()), (cuts) => {
      t.same(read(text, cuts), expected)
    }),
  )
})

test('an event that came by half is read, but is not where to go on', async (t) => {
  t.same(read(Buffer.from('id: 1\ndata: a\n\nid: 2\ndata: b')), {
    messages: ['a', 'b'],
    id: '1',
    retry: undefined,
  })
})

test('messages that are kept take no more room than their bytes', (t) => {
  const bytes = 32 * 1024 * 1024
  const stream = createEventStream(bytes, () => 'candidate')
  const take = stream.begin()
  const event = Buffer.from(`data: ${'x'.repeat(16_400)}\n\n`)
  for (let at = 0; at < 2_000; at++) take(event)
  const messages = stream.end()
  t.equal(messages.length, 2_000)
  const room = messages.reduce((sum, { buffer }) => sum + ((buffer as ArrayBuffer).maxByteLength ?? 0), 0)
  t.ok(room < bytes, `${room} bytes`)
  t.end()
})

test('what comes after as many bytes as are wanted is not kept', (t) => {
  const stream = createEventStream(10, () => 'last')
  const take = stream.begin()
  take(Buffer.from('data: 123456\ndata: 78901234\n\n'))
  const [message] = stream.end()
  t.equal(message && Buffer.from(message).toString(), '123456\n789')
  t.end()
})

test('words of a message are found as it comes, wherever parts of it end', async (t) => {
  const text = Buffer.from('data: {"id":1,"jsonrpc":\ndata:  "2.0","re\n\ndata: "result":1\n\n')
  proven(
    t,
    50,
    fc.property(fc.array(fc.nat(text.length)), (cuts) => {
      const found: string[][] = []
      const words = ['"id"', '"result"', '"error"']
      const stream = createEventStream(
        text.length,
        (_, holds) => {
          found.push(words.filter(holds))
          return 'other'
        },
        words,
      )
      const take = stream.begin()
      const ends = [...cuts, text.length].sort((a, b) => a - b)
      ends.forEach((end, at) => {
        take(Buffer.from(text.subarray(ends[at - 1] ?? 0, end)))
      })
      stream.end()
      t.same(found, [['"id"'], ['"result"']])
    }),
  )
})
