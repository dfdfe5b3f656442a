import { Type as TypeBox } from '@sinclair/typebox'
import { test } from 'tap'
import { Type } from '../../src/adcp/type.js'

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
