import fc from 'fast-check'
import { test } from 'tap'
import { elementSpans, measure } from '../../src/adcp/json.js'
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
