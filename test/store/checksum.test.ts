import { crc32 } from 'node:zlib'
import { test } from 'tap'
import { checksumOf } from '../../src/store/blob-files.js'
import { countTurns } from '../support/turns.js'

const MIB = 1024 * 1024

/** How often others are served meanwhile. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  const counted = countTurns()
  await work()
  return counted.stop()
}

test('others are served between many small parts as within a large one', async (t) => {
  const part = new Uint8Array(MIB).fill(7)
  const turns = await turnsDuring(async () => {
    for (let sums = 0; sums < 40; sums += 1) await checksumOf(part)
  })
  t.ok(turns >= 15, `${turns} turns in 40 MiB`)
  const large = await turnsDuring(() => checksumOf(new Uint8Array(40 * MIB)))
  t.ok(large >= 15, `${large} turns in 40 MiB`)
})

test('a part has one checksum, wherever it is summed up', async (t) => {
  const part = new Uint8Array(new SharedArrayBuffer(5 * MIB + 3)).map((_, at) => at % 251)
  const threaded = new Uint8Array(new SharedArrayBuffer(part.byteLength))
  threaded.set(part)
  const expected = crc32(part)
  t.equal(await checksumOf(part), expected, 'here')
  t.equal(await checksumOf(threaded), expected, 'in a thread')
  t.equal(await checksumOf(new Uint8Array(0)), 0)
})
