import { test } from 'tap'
import { giveBack, giveBackMoved, isLent, lend } from '../../src/process/memory.js'

const moved = (bytes: Uint8Array) => structuredClone(bytes, { transfer: [bytes.buffer as ArrayBuffer] })

test('memory that was given back is lent again, and once', (t) => {
  const first = lend(100_000)
  giveBack(first)
  giveBack(first)
  t.equal(lend(100_000).buffer, first.buffer)
  t.not(lend(100_000).buffer, first.buffer)
  t.end()
})

test('memory that went to another thread is lent again as what came back', (t) => {
  const sent = lend(100_000).subarray(0, 90_000)
  const back = moved(sent)
  giveBack(sent) // it is no longer here
  giveBackMoved(back)
  const next = lend(100_000)
  t.equal(next.buffer, back.buffer)
  t.ok(isLent(next))
  t.end()
})

test('memory that was never lent is not taken', (t) => {
  for (const bytes of [
    new Uint8Array(0),
    new Uint8Array(1_000),
    new Uint8Array(new SharedArrayBuffer(32_768)),
  ]) {
    giveBackMoved(bytes)
    t.not(lend(bytes.byteLength).buffer, bytes.buffer)
  }
  t.end()
})
