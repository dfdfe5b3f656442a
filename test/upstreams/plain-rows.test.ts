/**
 * A row that is kept without being parsed is one that the rules for whole rows keep, byte for byte, whatever strangers
 * wrote into it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { wholeMemory } from '../../src/process/remembered.js'
import { skim } from '../../src/upstreams/agent/skim.js'
import { readRow } from '../../src/upstreams/rows/listing.js'
import { readPlain } from '../../src/upstreams/rows/plain-row.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import {
  arePlain,
  hasMember,
  MEMBER,
  membersRoom,
  memberText,
  putMembers,
} from '../../src/upstreams/rows/written.js'
import { proven } from '../support/proven.js'

const REF = '{"scope":"data_provider","data_provider_domain":"provider.example","signal_id":"s"}'
const ORDINARY: readonly [name: string, json: string][] = [
  ['signal_ref', REF],
  ['signal_id', '{"source":"catalog","data_provider_domain":"provider.example","id":"s"}'],
  ['signal_agent_segment_id', '"seg"'],
  ['name', '"Auto"'],
  ['description', '"日本, {or} [elsewhere]: "'],
  ['signal_type', '"marketplace"'],
  ['data_provider', '"Provider"'],
  ['coverage_percentage', '12.5'],
  ['data_sources', '["web_usage","app_usage"]'],
  ['deployments', '[{"type":"platform","platform":"dv360","is_live":false}]'],
  ['pricing_options', '[{"pricing_option_id":"po","model":"cpm","cpm":2,"currency":"USD"}]'],
]

/** What may stand in place of a member: other values, of no shape, or no JSON at all. */
const STRANGE = [
  ...[
    'null',
    'true',
    '1e400',
    '-0',
    '01',
    '1.',
    '-',
    '""',
    '"',
    '"\u0007"',
    '"a\\nb"',
    '"\\ud800"',
    '[]',
    '[ ]',
    '{}',
  ],
  ...[
    '[1,]',
    '{"a":{]}',
    '{"age":{"age":1,"age":2}}',
    '[{"type":"platform","platform":"x","is_live":true,"new":1}]',
  ],
  ...[
    '[{"platform":"x","is_live":true}]',
    '[{"type":"platform","platform":"x","platform":"y","is_live":true}]',
  ],
  ...['[{"type":"platform","platform":"x","is_live":true,"decisioning_platform_segment_id":"7"}]'],
  ...[
    '{"source":"catalog","data_provider_domain":"Provider.example","id":"s"}',
    '"audience"',
    '["DE"]',
    '[""]',
  ],
  ...['{"scope":"data_provider","data_provider_domain":"Provider.example","signal_id":"s"}'],
  ...['{"scope":"data_provider","data_provider_domain":"provider.example","signal_id":"s","more":1}'],
  ...[
    '{"scope":"product","signal_id":"s"}',
    `"${'x'.repeat(513)}"`,
    `"${'x'.repeat(8_193)}"`,
    '0',
    '100',
    '100.5',
    ' 1',
  ],
  ...[
    '[[[[[[[[[[1]]]]]]]]]]',
    '{"a":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}',
  ],
]
/** Values of several parts, and others that begin as they do. */
const PRICES = '[{"pricing_option_id":"po","model":"cpm","cpm":2,"currency":"USD"}]'
const TARGETS =
  '[{"type":"platform","platform":"the-trade-desk","is_live":false},{"type":"platform","platform":"dv360","is_live":false}]'
const KNOWN = [
  ...[PRICES, TARGETS].flatMap((text) => [
    text,
    `${text}1`,
    `${text}]`,
    `${text} `,
    text.slice(0, -1),
    `${text}"`,
  ]),
  TARGETS.replace('dv360', 'dv36'),
  TARGETS.replace('dv360', 'dv361'),
  TARGETS.replace('false}]', '"no"}]'),
]
const NAMES = [
  ...ORDINARY.map(([name]) => name),
  ...[
    'signal_id',
    'demographic_predicate',
    'modeling',
    'countries',
    'coverage_forecast',
    'range',
    'unknown',
    '',
    'a\\u0062',
  ],
  ...['signals_agent_segment_id', 'pricing', 'name ', 'taxonomy', 'last_updated', '__proto__'],
]

const change = fc.record({
  at: fc.nat({ max: ORDINARY.length - 1 }),
  cut: fc.constantFrom(0, 1, 1),
  name: fc.oneof(fc.constant(undefined), fc.constantFrom(...NAMES)),
  json: fc.oneof(
    fc.constantFrom(...STRANGE),
    fc.constantFrom(...KNOWN),
    fc.json({ maxDepth: 3 }),
    fc.string({ maxLength: 5 }),
  ),
})

const scene = fc.record({
  changes: fc.array(change, { maxLength: 2 }),
  space: fc.constantFrom('', '', '', ' '),
  around: fc.constantFrom<[open: string, close: string]>(
    ['{', '}'],
    ['{', '}'],
    ['{', '}'],
    ['{', ']'],
    ['[', '}'],
    ['{', ''],
    ['{', '}}'],
    ['{', '} '],
  ),
  broken: fc.constantFrom(-1, -1, -1, 300, 120),
})

const found = membersRoom()

const row = (members: readonly (readonly [string, string])[]) =>
  Buffer.from(`{${members.map(([name, json]) => `"${name}":${json}`).join()}}`)

test('a name that a stranger made to have the number of a known one is not taken for it', (t) => {
  t.ok(readPlain(row(ORDINARY)))
  const other = row(ORDINARY.map(([name, json]) => [name === 'name' ? 'nbNe' : name, json]))
  t.equal(readPlain(other), undefined)
  t.end()
})

test('a legacy id that nearly repeats the reference is judged by the rules for all, and one that is cut is none', (t) => {
  const text = row(ORDINARY).toString()
  const [, [, usual]] = ORDINARY as [unknown, [string, string]]
  const from = text.indexOf(usual)
  const judged = { kept: 0, left: 0 }
  for (let at = from; at < from + usual.length; at += 1) {
    for (const other of ['?', '"', '}', 'a']) {
      const raw = Buffer.from(text.slice(0, at) + other + text.slice(at + 1))
      const read = readPlain(raw)
      const whole = readRow(raw)
      const isAsItCame = whole.kind === 'listing' && whole.quirks.length === 0 && raw.equals(whole.bytes)
      if (read && !isAsItCame) t.fail(`${raw}`)
      judged[read ? 'kept' : 'left'] += 1
    }
    const cut = new Uint8Array(at)
    cut.set(Buffer.from(text).subarray(0, at)) // in memory that ends with it
    if (readPlain(cut)) t.fail(`cut at ${at}`)
  }
  t.ok(judged.kept > 5 && judged.left > 200, `${judged.kept} kept, ${judged.left} left to the rules`)
  t.end()
})

test('rows are plain when none has an escape or is broken, wherever they lie', (t) => {
  const [plain, escaped] = [row(ORDINARY), row([['name', '"a\\nb"']])]
  const page = Buffer.concat([plain, Buffer.from(','), plain, Buffer.from(','), escaped])
  const first = page.subarray(0, plain.length)
  const second = page.subarray(plain.length + 1, 2 * plain.length + 1)
  const last = page.subarray(2 * plain.length + 2)
  t.ok(arePlain([]))
  t.ok(arePlain([first, second]))
  t.notOk(arePlain([first, second, last]))
  t.ok(arePlain([second, first]), 'in another order')
  t.notOk(arePlain([last, first]), 'in another order, one with an escape')
  t.ok(arePlain([first, Uint8Array.from(plain)]), 'in two memories')
  t.notOk(arePlain([first, Uint8Array.from(escaped)]))
  second[3] = 0xff
  t.notOk(arePlain([first, second]), 'broken UTF-8')
  t.end()
})

type Scene = typeof scene extends fc.Arbitrary<infer S> ? S : never

function textOf({ changes, space, around: [open, close] }: Scene): string {
  const members = [...ORDINARY]
  for (const { at, cut, name, json } of changes) {
    members.splice(at, cut, [name ?? (ORDINARY[at]?.[0] as string), json])
  }
  return `${open}${members.map(([name, json]) => `"${name}":${space}${json}`).join()}${close}`
}

test('what is kept without being parsed is what parsing keeps', (t) => {
  let plain = 0
  const property = fc.property(scene, (drawn) => {
    const text = textOf(drawn)
    const { broken } = drawn
    const raw = Buffer.from(text)
    if (broken >= 0 && broken < raw.length) raw[broken] = 0xff // no UTF-8
    const read = arePlain([raw]) ? readPlain(raw) : undefined
    if (!read) return
    plain += 1
    const row = readRow(raw)
    assert.ok(row.kind === 'listing', text)
    assert.deepEqual(row.bytes, raw)
    assert.deepEqual(row.quirks, [])
    assert.equal(
      row.listing.signal_agent_segment_id,
      read.memory.bytes.toString('utf8', read.segment, read.segmentEnd),
    )
    assert.deepEqual(
      row.listing.signal_ref?.scope === 'data_provider' && row.listing.signal_ref.data_provider_domain,
      read.domain,
    )
    putMembers(found, wholeMemory(raw), raw.byteOffset, read.places, 0, read.members)
    const named = Object.entries(MEMBER).filter(([, at]) => hasMember(found, at))
    const said = named.map(([name, at]) => [name, JSON.parse(memberText(found, at))])
    assert.deepEqual(Object.fromEntries(said), row.listing)
  })
  t.doesNotThrow(() => proven(t, 5_000, property))
  t.ok(plain > 200, `${plain} were plain`)
  t.end()
})

test('rows that are read while their ends are looked for are those that stand alone', (t) => {
  const junk = fc.constantFrom('', '', '', '', ' ', ' junk', '"more"', '{}', ']', ',', '\n')
  const usual: Scene = { changes: [], space: '', around: ['{', '}'], broken: -1 }
  const page = fc.record({
    rows: fc.array(fc.tuple(fc.oneof(fc.constant(usual), scene), junk), { maxLength: 6 }),
    rowBytes: fc.constantFrom(10_000, 10_000, 10_000, 500),
    broken: fc.constantFrom(-1, -1, -1, 700),
  })
  let onTheWay = 0
  const property = fc.property(page, ({ rows, rowBytes, broken }) => {
    const text = `{"signals":[${rows.map(([drawn, behind]) => `${textOf(drawn)}${behind}`).join()}]}`
    const bytes = Buffer.from(text)
    if (broken >= 0 && broken < bytes.length) bytes[broken] = 0xff // no UTF-8
    const cut = (bytes: Buffer, upTo?: number) => {
      try {
        return skim(bytes, upTo)
      } catch (error) {
        assert.ok(error instanceof SyntaxError, text)
        return undefined
      }
    }
    const [alone, read] = [cut(Buffer.from(bytes)), cut(bytes, rowBytes)]
    assert.deepEqual(read?.rows, alone?.rows, text)
    if (!read || !alone) return
    const expected = readRows(
      alone.rows.map((row) => Buffer.from(row)),
      { rowBytes },
    )
    assert.deepEqual(readRows(read.rows, { rowBytes }, { memory: bytes, plain: read.plain }), expected, text)
    if (read.plain) onTheWay += expected.places.ends.length
  })
  t.doesNotThrow(() => proven(t, 1_000, property))
  t.ok(onTheWay > 200, `${onTheWay} rows were kept`)
  t.end()
})
