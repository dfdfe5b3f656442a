import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { wholeMemory } from '../../src/process/remembered.js'
import { createCollector } from '../../src/upstreams/rows/new-slice.js'
import { listingBytes, readRows } from '../../src/upstreams/rows/read-rows.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import { writtenRef } from '../../src/upstreams/rows/written.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'
import { row } from '../support/upstream-world.js'

/** JSON as somebody writes it who wants two readers to understand two things. */
const scalars = fc.oneof(
  fc.constantFrom('1e999', '-0', '1E400', '123456789012345678901234567890', 'null', 'true', '1.0', '""'),
  fc.constantFrom(
    '"\\ud800"',
    '"\\u0000"',
    '"\\u001b"',
    '"\\\\"',
    '"\\""',
    '"\\ud83d\\ude00"',
    '"}"',
    '"{\\"signal_ref\\":{"',
  ),
  anyText().map((text) => JSON.stringify(text)),
)
const names = fc.oneof(
  fc.constantFrom(
    '"signal_ref"',
    '"\\u0073ignal_ref"',
    '"signal\\u005fref"',
    '"signal_id"',
    '"__proto__"',
    '"constructor"',
  ),
  fc.constantFrom(
    '"scope"',
    '"data_provider_domain"',
    '"signal_agent_segment_id"',
    '"name"',
    '"x"',
    '"\\ud800"',
    '""',
  ),
)
const references = fc.constantFrom(
  '{"scope":"data_provider","data_provider_domain":"victim.example","signal_id":"a"}',
  '{"scope":"data_provider","data_provider_domain":"VICTIM.example","signal_id":"a"}',
  '{"signal_id":"b","scope":"data_provider","data_provider_domain":"own.example","extra":"}"}',
  '{"scope":"signal_source","signal_source_url":"https://victim.example/mcp","signal_id":"a"}',
  '{"scope":"product","signal_id":"a"}',
  '{"source":"catalog","data_provider_domain":"victim.example","id":"a"}',
)
const { value: json } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, scalars, references, tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 3 }).map((each) => `[${each.join()}]`),
  object: fc
    .array(fc.tuple(names, tie('value')), { maxLength: 3 })
    .map((members) => `{${members.map(([name, value]) => `${name}:${value}`).join()}}`),
}))
const members = fc.array(fc.tuple(names, json), { maxLength: 3 })
const depths = fc.constantFrom(0, 0, 0, 20, 5_000)

/** A good row with members put in before and behind its own, in any of JSON's spellings. */
const rows = fc
  .record({ before: members, behind: members, depth: depths, space: fc.constantFrom('', ' ', '\n\t') })
  .map(({ before, behind, depth, space }) => {
    const own = Object.entries(row(1)).map(([name, value]) => `"${name}":${space}${JSON.stringify(value)}`)
    const deep = depth > 0 ? [`"y":${'['.repeat(depth)}${']'.repeat(depth)}`] : []
    const put = (list: [string, string][]) => list.map(([name, value]) => `${name}${space}:${value}`)
    return `{${[...put(before), ...own, ...deep, ...put(behind)].join(`,${space}`)}}`
  })

/** Every name of every object once: what a reader of the last member and one of the first agree on. */
function isUnambiguous(text: string): boolean {
  let names = 0
  JSON.parse(text, (_, value) => {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      names += Object.keys(value).length
    return value
  })
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/gs, '')
  return names === outside.split(':').length - 1
}

test('what is kept of a row is what JSON.parse says it is, or nothing is', async (t) => {
  let kept = 0
  proven(
    t,
    1_500,
    fc.property(rows, (text) => {
      const read = readRows([Buffer.from(text)])
      const [bytes] = [...listingBytes(read)]
      if (!bytes) return Object.keys(read.dropped).length === 1
      kept += 1
      const said = JSON.parse(text) as Record<string, unknown>
      const listing = JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>
      const ref = listing.signal_ref as Record<string, unknown> | undefined
      const meant = said.signal_ref as Record<string, unknown> | undefined
      return (
        isUnambiguous(text) &&
        isDeepStrictEqual(
          writtenRef(wholeMemory(bytes), bytes.byteOffset, bytes.byteOffset + bytes.length),
          ref,
        ) &&
        (meant === undefined || meant.signal_id === ref?.signal_id) &&
        listing.name === said.name &&
        listing.signal_agent_segment_id === said.signal_agent_segment_id &&
        read.digests[0] === hash('sha256', bytes, 'buffer').readBigUInt64BE(0) &&
        !/\\u(0000|d[89a-f])/i.test(Buffer.from(bytes).toString().replaceAll('\\\\', ''))
      )
    }),
  )
  t.ok(kept > 100, `${kept} rows were kept`)
})

test('a segment is kept once in a collection, whichever answer it came in', async (t) => {
  const collector = createCollector()
  const portion = (from: number, to: number) =>
    readRows(Array.from({ length: to - from }, (_, at) => Buffer.from(JSON.stringify(row(from + at)))))
  t.same(await collector.take(portion(0, 3_000)), { fresh: 3_000, repeated: 0 })
  t.same(await collector.take(portion(2_990, 3_010)), { fresh: 10, repeated: 10 })
  const { rows, digests, dropped, refused, domains } = collector.finish()
  t.equal(rows.count, 3_010)
  t.same(dropped, { repeated: 10 })
  t.match(refused[0], { reason: 'repeated', segment: 'segment_2990' })
  t.same(domains, ['tridentauto.example'])
  t.match(JSON.parse(Buffer.from(slabRow(rows, 3_009)).toString()), {
    signal_agent_segment_id: 'segment_3009',
  })
  t.equal(digests.length, 3_010)
})
