import { gzipSync } from 'node:zlib'
import { test } from 'tap'
import { type BodyOutcome, createBodyReceiver, createUnderWay } from '../../src/net/body.js'
import { createGathering } from '../../src/process/memory.js'

const KiB = 1024
const uncounted = { begin: () => ({ grew() {}, end() {} }), stop() {}, goOn() {} }

function readCrumbs(count: number, maxBytes: number): Promise<BodyOutcome> {
  const reader = createBodyReceiver('', { maxBytes, ...uncounted })
  for (let at = 0; at < count; at += 1) reader.take(Buffer.alloc(1, at % 256))
  reader.end()
  return reader.outcome
}

test('chunks of a few bytes are kept together, and none is lost', async (t) => {
  const gathering = createGathering()
  for (let at = 0; at < 100_000; at += 1) gathering.add(Uint8Array.of(at % 256))
  gathering.add(Buffer.alloc(10 * KiB, 7))
  for (let at = 0; at < 10; at += 1) gathering.add(Uint8Array.of(at))
  t.ok(gathering.chunks().length < 50, `${gathering.chunks().length} chunks are held`)
  const whole = Buffer.concat(gathering.chunks())
  t.equal(whole.byteLength, 100_000 + 10 * KiB + 10)
  t.ok(whole.subarray(0, 100_000).every((byte, at) => byte === at % 256))
  t.ok(whole.subarray(-10).every((byte, at) => byte === at))
})

test('an answer in crumbs is given up before it costs a second', async (t) => {
  const harm = await readCrumbs(1_000_000, 32 * KiB * KiB)
  t.match(harm, { kind: 'too_large', message: 'in more than 20000 chunks of a few bytes' })
  const slow = await readCrumbs(10_000, KiB * KiB)
  t.match(slow, { kind: 'body' }, 'a slow one that ends is read')
})

test('when too much is read at once, the largest of the greediest domain is given up, and no bystander', async (t) => {
  const underWay = createUnderWay(() => 100 * KiB)
  const stopped = new Set<string>()
  const read = (host: string) =>
    createBodyReceiver('', {
      maxBytes: 64 * KiB,
      begin: (giveUp) => underWay.begin(new URL(`https://${host}/`), giveUp),
      stop: () => stopped.add(host),
      goOn() {},
    })
  const honest = read('honest.example')
  const greedy = Array.from({ length: 8 }, (_, at) => read(`h${at}.greedy.example`))
  honest.take(Buffer.alloc(30 * KiB))
  for (const each of greedy) each.take(Buffer.alloc(20 * KiB))
  t.ok(underWay.bytes() <= 100 * KiB, `${underWay.bytes()} bytes are held`)
  for (const each of [honest, ...greedy]) each.end()
  const kinds = (await Promise.all(greedy.map(({ outcome }) => outcome))).map(({ kind }) => kind)
  t.match(await honest.outcome, { kind: 'body' })
  t.equal(stopped.size, underWay.givenUp(), 'who is given up is hung up on')
  t.equal(kinds.filter((kind) => kind === 'crowded_out').length, underWay.givenUp())
  t.equal(kinds.filter((kind) => kind === 'body').length, 3, 'what has room is read')
  t.equal(underWay.bytes(), 0, 'nothing is counted that has ended')
})

test('nothing that is read stands in the memory that it came in', async (t) => {
  const body = Buffer.from(Array.from({ length: 20_000 }, (_, at) => `${at * 7_919},`).join(''))
  for (const [encoding, sent] of [
    ['', body],
    ['gzip', gzipSync(body)],
  ] as const) {
    const reader = createBodyReceiver(encoding, { maxBytes: 1024 * KiB, ...uncounted })
    for (let at = 0; at < sent.byteLength; at += 10_000) {
      const chunk = Buffer.from(sent.subarray(at, at + 10_000))
      reader.take(chunk)
      chunk.fill(0)
    }
    reader.end()
    const read = await reader.outcome
    t.ok(read.kind === 'body' && body.equals(read.body), encoding)
  }
})
