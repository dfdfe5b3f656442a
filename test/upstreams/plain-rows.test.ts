/**
 * A row that is kept without being parsed is one that the rules for whole rows keep, byte for byte, whatever strangers
 * wrote into it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { wholeMemory } from '../../src/process/remembered.js'
import { readRow } from '../../src/upstreams/rows/listing.js'
import { readPlain } from '../../src/upstreams/rows/read-rows.js'
import {
  arePlain,
  hasMember,
  MEMBER,
  membersRoom,
  memberText,
  placesRoom,
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

const places = placesRoom()
const found = membersRoom()

const row = (members: readonly (readonly [string, string])[]) =>
  Buffer.from(`{${members.map(([name, json]) => `"${name}":${json}`).join()}}`)

test('a name that a stranger made to have the number of a known one is not taken for it', (t) => {
  t.ok(readPlain(row(ORDINARY), places))
  const other = row(ORDINARY.map(([name, json]) => [name === 'name' ? 'nbNe' : name, json]))
  t.equal(readPlain(other, places), undefined)
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

test('what is kept without being parsed is what parsing keeps', (t) => {
  let plain = 0
  const property = fc.property(scene, ({ changes, space, around: [open, close], broken }) => {
    const members = [...ORDINARY]
    for (const { at, cut, name, json } of changes) {
      members.splice(at, cut, [name ?? (ORDINARY[at]?.[0] as string), json])
    }
    const text = `${open}${members.map(([name, json]) => `"${name}":${space}${json}`).join()}${close}`
    const raw = Buffer.from(text)
    if (broken >= 0 && broken < raw.length) raw[broken] = 0xff // no UTF-8
    const read = arePlain([raw]) ? readPlain(raw, places) : undefined
    if (!read) return
    plain += 1
    const row = readRow(raw)
    assert.ok(row.kind === 'listing', text)
    assert.deepEqual(row.bytes, raw)
    assert.equal(row.isPlural, false)
    assert.equal(row.listing.signal_agent_segment_id, read.segment)
    assert.deepEqual(
      row.listing.signal_ref?.scope === 'data_provider' && row.listing.signal_ref.data_provider_domain,
      read.domain,
    )
    putMembers(found, wholeMemory(raw), raw.byteOffset, places, 0, read.members)
    const named = Object.entries(MEMBER).filter(([, at]) => hasMember(found, at))
    const said = named.map(([name, at]) => [name, JSON.parse(memberText(found, at))])
    assert.deepEqual(Object.fromEntries(said), row.listing)
  })
  t.doesNotThrow(() => proven(t, 5_000, property))
  t.ok(plain > 200, `${plain} were plain`)
  t.end()
})
