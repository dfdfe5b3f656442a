import { Type as TypeBox } from '@sinclair/typebox'
import { test } from 'tap'
import { compileCheck, fieldOf, invalidRequest, Type } from '../../src/adcp/schema.js'
import { GetSignalsRequest } from '../../src/adcp/signal-requests.js'
import { ListTasksRequest } from '../../src/adcp/task-schemas.js'
import { costRatio } from '../support/cost-ratio.js'

/** A schema of every kind, with and without options, by either builder. */
function every(type: typeof Type) {
  const text = type.String({ maxLength: 9 })
  const both = type.Object({ b: text, a: type.Optional(type.Null()) }, { additionalProperties: false })
  return {
    ...{ text, both, none: type.Object({}), boolean: type.Boolean(), unknown: type.Unknown() },
    onlyOptional: type.Object({ a: type.Optional(text) }),
    list: type.Array(type.Number({ minimum: 0 }), { minItems: 1 }),
    literals: type.Union([type.Literal('a'), type.Literal(1, { title: 'one' })], { title: 'either' }),
    picked: type.Pick(both, ['a']),
    byName: type.Record(type.String({ minLength: 1 }), type.Integer(), { minProperties: 1 }),
    byCode: type.Record(type.String({ pattern: '^[A-Z]{2}$' }), text),
    unsafe: type.Unsafe<string>({ type: 'string', enum: ['a'] }),
    spread: type.Object({ ...both.properties, c: type.Optional({ ...text }), d: { ...type.Optional(text) } }),
  }
}

test('our builder makes what TypeBox makes, byte for byte', async (t) => {
  const [ours, theirs] = [every(Type), every(TypeBox as unknown as typeof Type)]
  for (const [name, schema] of Object.entries(ours)) {
    t.equal(JSON.stringify(schema), JSON.stringify(theirs[name as keyof typeof theirs]), name)
  }
})

const Shape = Type.Object({
  mode: Type.Optional(Type.Union([Type.Literal('a'), Type.Literal('b')])),
  refs: Type.Optional(
    Type.Array(
      Type.Union([
        Type.Object({ scope: Type.Literal('x'), id: Type.String() }),
        Type.Object({ scope: Type.Literal('y'), url: Type.String() }),
      ]),
    ),
  ),
  size: Type.Optional(Type.Integer({ minimum: 1 })),
})
const check = compileCheck(Shape)
const issues = (value: unknown) => {
  const checked = check(value)
  return checked.ok ? [] : checked.issues.map(({ pointer, message }) => `${pointer} ${message}`)
}

test('a union is told of by its tag, not by every branch', (t) => {
  t.same(issues({ mode: 'c' }), ['/mode must be one of: a, b'])
  t.same(issues({ refs: [{ scope: 'x' }] }), ['/refs/0/id is required'])
  t.same(issues({ refs: [{ scope: 'z', id: '1' }] }), ['/refs/0/scope must be one of: x, y'])
  t.same(issues({ refs: ['text'] }), ['/refs/0 must be one of: {scope, id} or {scope, url}'])
  t.same(issues({ refs: [{ scope: 'x', id: '1' }, { scope: 'y' }], size: 0 }), [
    '/size must be at least 1',
    '/refs/1/url is required',
  ])
  t.same(issues('text'), [' must be an object'])
  t.end()
})

test('a pointer becomes a field in the protocol form', (t) => {
  t.equal(fieldOf('/filters/max_cpm'), 'filters.max_cpm')
  t.equal(fieldOf('/signals/0/name'), 'signals[0].name')
  t.equal(fieldOf('/a~1b/c~0d'), 'a/b.c~d')
  t.equal(fieldOf(''), '')
  t.equal(
    'field' in
      invalidRequest([{ pointer: '', message: 'must be an object', keyword: 'type', suggestion: '' }]),
    false,
  )
  t.end()
})

test('each entry of a list is told of by itself, the first one first', (t) => {
  t.same(issues({ refs: [{ scope: 'z', id: '1' }, { scope: 'x' }, 'text', { scope: 'w' }] }), [
    '/refs/0/scope must be one of: x, y',
    '/refs/1/id is required',
    '/refs/2 must be one of: {scope, id} or {scope, url}',
    '/refs/3/scope must be one of: x, y',
  ])
  t.end()
})

test('a thousand violations are told as a few, and of a great many the first one is found', async (t) => {
  const wrong = (length: number) => issues({ refs: Array.from({ length }, () => ({ scope: 'x' })) })
  const few = wrong(1_000)
  t.equal(few.length, 16)
  t.equal(few[0], '/refs/0/id is required')
  t.match(wrong(100_000), [/^\/refs\/0 must be/])
  const ratio = await costRatio(
    { work: () => wrong(1_000), times: 6 },
    { work: () => wrong(4_000), times: 1 },
    15,
  )
  t.ok(ratio < 11, `four times as many cost ${ratio} times as much`)
})

test('what stands behind one entry too many is not looked at', async (t) => {
  const ask = compileCheck(GetSignalsRequest)
  const fields = (length: number) => ask({ fields: Array.from({ length }, (_, at) => `none of ours ${at}`) })
  const checked = fields(4_000)
  t.match(checked, {
    ok: false,
    issues: [{ pointer: '/fields', keyword: 'maxItems' }, { pointer: '/fields/0' }],
  })
  const ratio = await costRatio(
    { work: () => fields(100), times: 5 },
    { work: () => fields(4_000), times: 5 },
    8,
  )
  t.ok(ratio < 8, `forty times as many cost ${ratio} times as much`)
})

test('nor is what stands behind one character too many, whichever characters they are', async (t) => {
  const list = compileCheck(ListTasksRequest)
  const since = (created_after: string) => list({ filters: { created_after } })
  t.equal(since('2026-03-01T00:00:00.123456789Z').ok, true)
  for (const long of ['t'.repeat(100), '😀'.repeat(100), '\ud800'.repeat(100)])
    t.match(since(long), { ok: false, issues: [{ pointer: '/filters/created_after', keyword: 'maxLength' }] })
  const text = (length: number) => {
    const value = ' '.repeat(length)
    return () => void since(value)
  }
  // Characters are counted all the same; to look for a moment in as many took twenty times as long as that.
  const counted = compileCheck(Type.String({ maxLength: 9 }))
  const spaces = ' '.repeat(500_000)
  const count = () => void counted(spaces)
  const ratio = await costRatio({ work: count, times: 5 }, { work: text(500_000), times: 5 }, 4)
  t.ok(ratio < 4, `a moment costs ${ratio} times as much as its length`)
})
