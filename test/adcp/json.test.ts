import fc from 'fast-check'
import { test } from 'tap'
import { canonical, elementSpans, measure } from '../../src/adcp/json.js'
import { proven } from '../support/proven.js'

/** JSON with what `JSON.stringify` never writes: members twice, escaped names, space everywhere. */
function written(members: readonly [string, unknown][], escaped: boolean, space: string): string {
  const name = (key: string) =>
    escaped
      ? `"${[...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
      : JSON.stringify(key)
  const text = members.map(
    ([key, value]) =>
      `${space}${name(key)}${space}:${space}${JSON.stringify(value, null, space.length)}${space}`,
  )
  return `${space}{${text.join(',')}${space}}${space}`
}

test('the elements of a list stand where the parser found them', async (t) => {
  const value = fc.oneof(fc.array(fc.jsonValue(), { maxLength: 5 }), fc.jsonValue())
  const members = fc.array(fc.tuple(fc.constantFrom('signals', 'other', 'signa"ls', ''), value), {
    maxLength: 5,
  })
  proven(
    t,
    300,
    fc.property(
      members,
      fc.boolean(),
      fc.constantFrom('', ' ', '\n\t'),
      fc.boolean(),
      (list, escaped, space, mark) => {
        const text = written(list, escaped, space)
        const bytes = new TextEncoder().encode(`${mark ? '\ufeff' : ''}${text}`)
        const { signals } = JSON.parse(text) as { signals?: unknown }
        const found = elementSpans(bytes, ['signals']).map(([begin, end]) =>
          JSON.parse(new TextDecoder().decode(bytes.subarray(begin, end))),
        )
        t.same(found, Array.isArray(signals) ? JSON.parse(JSON.stringify(signals)) : [])
      },
    ),
  )
})

test('depth counts nesting, not brackets in strings', (t) => {
  const depthOf = (text: string) => measure(Buffer.from(text)).depth
  t.equal(depthOf('[[[]]]'), 3)
  t.equal(depthOf('["[[[[", {"\\"[[[": "}"}]'), 2)
  t.equal(depthOf('[[],[],[]]'), 2)
  t.end()
})

test('canonical JSON is written as RFC 8785 shows it (3.2.2 and 3.2.3)', (t) => {
  const numbers = '[333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001]'
  const string = String.raw`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`
  const value: unknown = JSON.parse(`{"numbers":${numbers},"string":${string},"literals":[null,true,false]}`)
  const written = [
    '{"literals":[null,true,false]',
    '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]',
    String.raw`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  ]
  t.equal(canonical(value), written.join())
  const names = ['\r', '1', '\u0080', '\u00f6', '\u20ac', '\ud83d\ude00', '\ufb33']
  const members = Object.fromEntries([...names].reverse().map((name) => [name, 0]))
  t.equal(canonical(members), `{${names.map((name) => `${JSON.stringify(name)}:0`).join()}}`)
  t.end()
})

test('what has no canonical form becomes what a storage keeps of it', (t) => {
  t.equal(
    canonical({ a: '\ud800', b: [Number.POSITIVE_INFINITY], c: undefined }),
    '{"a":"\ufffd","b":[null]}',
  )
  for (const [members, kept] of [
    ['{"\\ud800":1,"\\ue000":2}', '{"\ue000":2,"\ufffd":1}'],
    ['{"\\ud800":1,"\\udc00":2}', '{"\ufffd":2}'],
  ] as const) {
    t.equal(canonical(JSON.parse(members)), kept, 'names are those that are kept, in their order, each once')
    t.equal(canonical(JSON.parse(kept)), kept)
  }
  t.end()
})

test('equal values have one canonical text, which holds all of them', async (t) => {
  const turned = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(turned)
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).map(([name, member]) => [name, turned(member)])
    return Object.fromEntries(members.reverse())
  }
  const written = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown
  proven(
    t,
    300,
    fc.property(fc.jsonValue(), (value) => {
      t.equal(canonical(turned(value)), canonical(value))
      t.strictSame(written(JSON.parse(canonical(value))), written(value))
    }),
  )
})
