/**
 * JSON Schemas with the TypeScript types of what conforms to them: TypeBox's types over the plain objects that its
 * builder makes of those few kinds that we use (a test compares). The builder itself is a hundred modules, which each
 * thread would load at its start.
 */
import type { Type as Builder, TObject, TProperties, TSchema } from '@sinclair/typebox'

export type { Static, TLiteral, TObject, TProperties, TSchema } from '@sinclair/typebox'

type Plain = Record<string | symbol, unknown>

const IS_OPTIONAL = Symbol('optional')

const make = (kind: Plain, options: Plain = {}): Plain => ({ ...options, ...kind })
const simple =
  (type: string) =>
  (options?: Plain): Plain =>
    make({ type }, options)

function objectOf(properties: Record<string, Plain>, options?: Plain): Plain {
  const required = Object.keys(properties).filter((name) => !properties[name]?.[IS_OPTIONAL])
  return make({ type: 'object', ...(required.length > 0 && { required }), properties }, options)
}

const ofOurs = {
  Array: (items: Plain, options?: Plain) => make({ type: 'array', items }, options),
  Boolean: simple('boolean'),
  Integer: simple('integer'),
  Literal: (value: unknown, options?: Plain) => make({ const: value, type: typeof value }, options),
  Null: simple('null'),
  Number: simple('number'),
  Object: objectOf,
  Optional: (schema: Plain) => ({ ...schema, [IS_OPTIONAL]: true }),
  Pick({ required: _, properties, ...options }: TObject, names: readonly string[]) {
    const picked = names.map((name) => [name, (properties as TProperties)[name] as TSchema])
    return objectOf(Object.fromEntries(picked), options)
  },
  /** Its keys are strings. */
  Record: ({ pattern = '^(.*)$' }: Plain, value: Plain, options?: Plain) =>
    make({ type: 'object', patternProperties: { [pattern as string]: value } }, options),
  String: simple('string'),
  Union: (members: readonly Plain[], options?: Plain) => make({ anyOf: members }, options),
  Unknown: (options?: Plain) => make({}, options),
  Unsafe: (options?: Plain) => make({}, options),
}

/** As in TypeBox, for these kinds. */
export const Type = ofOurs as unknown as Pick<typeof Builder, keyof typeof ofOurs>
