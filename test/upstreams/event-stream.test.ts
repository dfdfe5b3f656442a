import fc from 'fast-check'
import { test } from 'tap'
import { createEventStream } from '../../src/upstreams/agent/event-stream.js'
import { createRpc } from '../../src/upstreams/agent/rpc.js'
import { proven } from '../support/proven.js'
import { threadMs } from '../support/thread-time.js'

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

test('eight million bytes of carriage returns, of colons and of empty data are read in one pass', async (t) => {
  for (const unit of ['\r', ':', 'data\n', 'data:x\n', 'data: {"id"\n\n']) {
    const text = Buffer.from(unit.repeat(8_000_000 / unit.length))
    const before = threadMs()
    read(
      text,
      Array.from({ length: 500 }, (_, at) => at * 16_384),
    )
    const ms = Math.round(threadMs() - before)
    t.ok(ms < 20_000, `${JSON.stringify(unit)}: ${ms} ms`) // a second pass for each line would take hours
  }
})

test('an event of 30 MB, in however many lines, is put together as it comes', async (t) => {
  for (const line of [320, 8_000, 30_000_000]) {
    const count = 30_000_000 / line
    const text = Buffer.from(`data: ${'x'.repeat(line - 7)}\n`.repeat(count))
    const stream = createEventStream(text.length, () => 'last')
    const take = stream.begin()
    for (let at = 0; at < text.length; at += 8_192) take(text.subarray(at, at + 8_192))
    const before = threadMs()
    t.ok(take(Buffer.from('\n')))
    const ms = threadMs() - before
    t.ok(ms < 10, `${count} lines: ${ms} ms when it ends`)
    const [message] = stream.end()
    t.equal(message?.byteLength, count * (line - 6) - 1)
  }
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

test('no part of a large answer stops the thread, whatever it holds', async (t) => {
  const bytes = 30_000_000
  for (const unit of ['"', '"i', '{"id":1}', '"id""resul', '"id" "error"']) {
    const text = Buffer.from(`data: ${unit.repeat(bytes / unit.length)}\n\n`)
    let longest = 0
    const post = createRpc(async ({ enough, url }) => {
      const answer = { status: 200, headers: { 'content-type': 'text/event-stream' } }
      const take = enough?.(answer) as (chunk: Uint8Array) => boolean
      for (let at = 0, isEnough = false; at < text.length && !isEnough; at += 8_192) {
        const before = threadMs() // of this thread alone: others of the process read and collect meanwhile
        isEnough = take(text.subarray(at, at + 8_192))
        longest = Math.max(longest, threadMs() - before)
      }
      return { kind: 'reply', ...answer, body: Buffer.alloc(0), url }
    })
    const asked = { url: 'https://agent.example', headers: {}, method: 'tools/call', isRead: true }
    const outcome = await post({ ...asked, budget: { timeoutMs: 60_000 }, as: 'mcp' })
    t.equal(outcome.kind, 'failed')
    t.ok(longest < 50, `${JSON.stringify(unit)}: ${longest} ms`)
  }
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
