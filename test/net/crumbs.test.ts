import { Readable } from 'node:stream'
import { test } from 'tap'
import { type BodyOutcome, createGathering, createUnderWay, readBody } from '../../src/net/body.js'

const KiB = 1024
const uncounted = { begin: () => ({ grew() {}, end() {} }) }
const crumbs = (count: number, bytes: number) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < count; at += 1) yield Buffer.alloc(bytes, at % 256)
    })(),
    { objectMode: false },
  )

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
  const harm = await readBody(crumbs(1_000_000, 1), '', { maxBytes: 32 * KiB * KiB, ...uncounted })
  t.match(harm, { kind: 'too_large', message: 'in more than 20000 chunks of a few bytes' })
  const slow = await readBody(crumbs(10_000, 1), '', { maxBytes: KiB * KiB, ...uncounted })
  t.match(slow, { kind: 'body' }, 'a slow one that ends is read')
})

test('when too much is read at once, the largest of the greediest domain is given up, and no bystander', async (t) => {
  const underWay = createUnderWay(() => 100 * KiB)
  const read = (host: string, body: Readable) =>
    readBody(body, '', {
      maxBytes: 64 * KiB,
      begin: (giveUp) => underWay.begin(new URL(`https://${host}/`), giveUp),
    })
  const open = () => new Readable({ read() {} })
  const bystander = open()
  const bodies = Array.from({ length: 8 }, open)
  const honest = read('honest.example', bystander)
  const greedy = bodies.map((body, at) => read(`h${at}.greedy.example`, body))
  bystander.push(Buffer.alloc(30 * KiB))
  await new Promise((resolve) => setImmediate(resolve))
  for (const body of bodies) {
    body.push(Buffer.alloc(20 * KiB))
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.ok(underWay.bytes() <= 100 * KiB, `${underWay.bytes()} bytes are held`)
  for (const body of [bystander, ...bodies]) if (!body.destroyed) body.push(null)
  const kinds = (await Promise.all(greedy)).map(({ kind }: BodyOutcome) => kind)
  t.match(await honest, { kind: 'body' })
  t.equal(kinds.filter((kind) => kind === 'crowded_out').length, underWay.givenUp())
  t.equal(kinds.filter((kind) => kind === 'body').length, 3, 'what has room is read')
  t.equal(underWay.bytes(), 0, 'nothing is counted that has ended')
})
