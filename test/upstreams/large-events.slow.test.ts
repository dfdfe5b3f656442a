/** Event streams as large as an answer may be: whatever they hold, no part of them stops the thread that serves. */
import { test } from 'tap'
import { createEventStream } from '../../src/upstreams/agent/event-stream.js'
import { createRpc } from '../../src/upstreams/agent/rpc.js'
import { threadMs } from '../support/thread-time.js'

test('eight million bytes of carriage returns, of colons and of empty data are read in one pass', async (t) => {
  for (const unit of ['\r', ':', 'data\n', 'data:x\n', 'data: {"id"\n\n']) {
    const text = Buffer.from(unit.repeat(8_000_000 / unit.length))
    const before = threadMs()
    const stream = createEventStream(text.length, () => 'candidate')
    const take = stream.begin()
    for (let at = 0; at < text.length; at += 16_384) take(text.subarray(at, at + 16_384))
    stream.end()
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
