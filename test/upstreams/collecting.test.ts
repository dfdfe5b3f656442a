/** Rows of many answers become one slab, copied in runs: what is in it is what a row-by-row collection would give. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { createCollector } from '../../src/upstreams/rows/new-slice.js'
import { NO_ROWS, type ReadRows, readRows } from '../../src/upstreams/rows/read-rows.js'
import { type Places, slabRow } from '../../src/upstreams/rows/slab.js'
import { digestOf } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { row as listed } from '../support/upstream-world.js'

type Row = { segment: number; text: string; members: number }

const FIRST_CHUNK = 256 * 1024

const row = fc.record({
  segment: fc.nat(40),
  members: fc.nat(3),
  // Some fill a chunk of memory, and some more than one.
  text: fc.oneof(
    { weight: 6, arbitrary: fc.nat(5).map((length) => 'x'.repeat(length)) },
    { weight: 2, arbitrary: fc.nat(2).map((part) => 'y'.repeat((FIRST_CHUNK * part) / 2)) },
    { weight: 1, arbitrary: fc.nat(9).map((more) => 'z'.repeat(FIRST_CHUNK * 3 - more)) },
  ),
})

/** What stands for the places of its members. */
const placesOf = ({ segment, members }: Row) => Array.from({ length: members }, (_, at) => segment * 10 + at)

const written = ({ segment, text }: Row) => Buffer.from(JSON.stringify({ segment, text }))

function answerOf(rows: readonly Row[]): ReadRows {
  const texts = rows.map(written)
  const words = rows.map(placesOf)
  let end = 0
  let wordsEnd = 0
  return {
    ...NO_ROWS,
    elements: rows.length,
    bytes: Buffer.concat(texts),
    ends: Uint32Array.from(texts, ({ byteLength }) => (end += byteLength)),
    digests: BigUint64Array.from(texts, digestOf),
    segments: BigUint64Array.from(rows, ({ segment }) => digestOf(`segment ${segment}`)),
    places: {
      words: Uint32Array.from(words.flat()),
      ends: Uint32Array.from(words, ({ length }) => (wordsEnd += length)),
    },
  }
}

const wordsAt = (places: Places | undefined, row: number) =>
  places?.words.subarray(places.ends[row - 1] ?? 0, places.ends[row]) ?? []

for (const overlapping of [false, true]) {
  test(`each segment once, in the order of the answers${overlapping ? ', which may overlap' : ''}`, async (t) => {
    await proven(
      t,
      24,
      fc.asyncProperty(fc.array(fc.array(row, { maxLength: 30 }), { maxLength: 4 }), async (answers) => {
        const collector = createCollector({ overlapping })
        const kept: Buffer[] = []
        const places: number[][] = []
        const segments = new Set<number>()
        const whole = new Set<string>()
        let refused = 0
        for (const rows of answers) {
          let repeated = 0
          for (const one of rows) {
            const bytes = written(one)
            const isAlike = whole.has(String(bytes))
            whole.add(String(bytes))
            if (!segments.has(one.segment)) {
              kept.push(bytes)
              places.push(placesOf(one))
            } else {
              repeated += 1
              if (!overlapping || !isAlike) refused += 1
            }
            segments.add(one.segment)
          }
          const taken = await collector.take(answerOf(rows))
          if (taken.repeated !== repeated || taken.fresh !== rows.length - repeated) return false
        }
        const bytes = kept.reduce((sum, { byteLength }) => sum + byteLength, places.flat().length * 4)
        if (collector.rows() !== kept.length || collector.bytes() !== bytes) return false
        const { rows, digests, dropped, refused: named } = collector.finish()
        return (
          rows.count === kept.length &&
          digests.length === kept.length &&
          kept.every((one, at) => one.equals(slabRow(rows, at)) && digests[at] === digestOf(one)) &&
          places.every((words, at) => words.join() === wordsAt(rows.places, at).join()) &&
          (dropped.repeated ?? 0) === refused &&
          named.length === refused
        )
      }),
    )
    t.end()
  })
}

test('a long answer lets others have their turn, also where all its rows are refused', async (t) => {
  const rows = Array.from({ length: 5_000 }, (_, at) => ({
    segment: at < 2_500 ? at : 0,
    text: '',
    members: 0,
  }))
  const collector = createCollector()
  let isDone = false
  const taking = collector.take(answerOf(rows)).finally(() => {
    isDone = true
  })
  let others = 0
  while (!isDone) {
    await new Promise((resolve) => setImmediate(resolve))
    others += 1
  }
  t.same(await taking, { fresh: 2_500, repeated: 2_500 })
  t.ok(others >= 4, `${others} turns in between`)
  t.equal(collector.rows(), 2_500)
})

const PLAIN = JSON.stringify(listed(1))
/** Kept as it came, written anew and so shorter or longer, and refused. */
const ROWS = [
  PLAIN,
  JSON.stringify({ ...listed(1), unknown: 'x'.repeat(50) }),
  JSON.stringify({ ...listed(1), description: `\u00e9\t${'\u2028'.repeat(9)}` }).replaceAll(
    '\u2028',
    '\\u2028',
  ),
  JSON.stringify({ ...listed(1), signal_type: 'audience', data_provider: undefined }),
  JSON.stringify({ ...listed(1), signal_type: 'a' }),
  'null',
]

test('rows are the same where they are left in the memory of their answer', async (t) => {
  let [left, copied] = [0, 0]
  await proven(
    t,
    300,
    fc.property(fc.array(fc.constantFrom(PLAIN, ...ROWS), { minLength: 1, maxLength: 12 }), (rows) => {
      const message = Uint8Array.from(Buffer.from(`[${rows.join()}]`))
      let at = 1
      const elements = rows.map((row) => {
        const from = at
        at += Buffer.byteLength(row) + 1
        return message.subarray(from, at - 1)
      })
      const expected = readRows(elements.map((row) => Uint8Array.from(row)))
      const found = readRows(elements, {}, { memory: message })
      if (found.bytes.buffer === message.buffer) left += 1
      else copied += 1
      return isDeepStrictEqual(found, expected)
    }),
  )
  t.ok(left > 50 && copied > 10, `${left} were left there, and ${copied} were not`)
})
