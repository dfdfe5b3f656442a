import fc from 'fast-check'
import { test } from 'tap'
import { canonical } from '../../src/store/records/idempotency.js'
import { proven } from '../support/proven.js'

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
