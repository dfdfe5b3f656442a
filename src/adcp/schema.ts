/**
 * JSON Schemas: how they are written, which TypeScript type conforms to one, and what in a value violates it. A
 * violation is reported as the protocol wants it: pointer, message, keyword (docs/protocol.md#envelope, `issues[]`). The
 * messages are ours and repeat no value of the request, because an untrusted string is never echoed.
 */
import { createRequire } from 'node:module'
import type {
  Type as Builder,
  SchemaOptions,
  Static,
  TLiteral,
  TObject,
  TProperties,
  TSchema,
  TUnion,
} from '@sinclair/typebox'
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv'
import { type AdcpError, ERROR_CODES, type Issue } from './answer.js'
import { issueMessage, issueSuggestion, unionWords } from './issue-words.js'
import { isRecord } from './json.js'

export type { Static, TObject, TProperties, TSchema, TString } from '@sinclair/typebox'

const require = createRequire(import.meta.url)

const MAX_ISSUES = 16 // enough to correct a request; a hostile one has thousands
/** Of a value with more than so many members and entries only the first fault is looked for: to find all could take seconds. */
const MOST_VALUES = 5_000
const IS_OPTIONAL = Symbol('optional')

type Plain = Record<string | symbol, unknown>

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

/**
 * TypeBox's types over the plain objects that its builder makes of those few kinds that we use (a test compares). The
 * builder itself is a hundred modules, which each thread would load at its start.
 */
export const Type = ofOurs as unknown as Pick<typeof Builder, keyof typeof ofOurs>

/** One of these words. */
export function wordOf<const T extends string>(
  words: readonly T[],
  options: SchemaOptions = {},
): TUnion<TLiteral<T>[]> {
  return Type.Union(words.map((word) => Type.Literal(word)) as TLiteral<T>[], options)
}

/** Loaded with the first value that is checked: most threads check none at their start. */
function createAjv(options: Options): Ajv {
  const { Ajv } = require('ajv') as typeof import('ajv')
  const { default: addFormats } = require('ajv-formats') as typeof import('ajv-formats')
  return addFormats.default(new Ajv(options))
}

/**
 * Validators are compiled at first use: compiling all of them takes a fifth of a second, which a process that needs few
 * would otherwise spend at its start.
 */
export type Check<T> = {
  conforms(value: unknown): value is T
  /** The violations that the last check found. */
  errors(): readonly ErrorObject[]
}

/** A maker of validators; the schemas are our own, so they are not validated themselves. */
export function createChecks(options: Options = {}) {
  let ajv: Ajv | undefined
  return function check<T>(schema: TSchema): Check<T> {
    let compiled: ValidateFunction<T> | undefined
    return {
      conforms(value): value is T {
        ajv ??= createAjv({ strict: false, validateSchema: false, ...options })
        compiled ??= ajv.compile<T>(schema)
        return compiled(value)
      },
      errors: () => compiled?.errors ?? [],
    }
  }
}

/** Makes validators that stop at the first violation. They share one compiler, because each loads the formats again. */
export const check = createChecks()

const checkFirst = createChecks({ verbose: true })
const checkWhole = createChecks({ allErrors: true, verbose: true })

/** A violated rule and what to send instead. `suggestion` goes into the error, not into its issues. */
export type Violation = Issue & { suggestion: string }

export type Checked<S extends TSchema> = { ok: true; value: Static<S> } | { ok: false; issues: Violation[] }

/** `issues[0]` in the form that `field` has: `/signals/0/name` -> `signals[0].name` (docs/protocol.md#envelope). */
export function fieldOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, at) => (/^\d+$/.test(part) ? `[${part}]` : at === 0 ? part : `.${part}`))
    .join('')
}

function pointerOf(error: ErrorObject): string {
  const child = error.params.missingProperty ?? error.params.additionalProperty
  if (typeof child !== 'string') return error.instancePath
  return `${error.instancePath}/${child.replaceAll('~', '~0').replaceAll('/', '~1')}`
}

/**
 * What is wrong inside a union, leaving out the branches that the caller did not mean: the violations of the branch
 * whose tag (a `const` member) matches, or whose members are there and wrong in themselves; without a match, one sentence that
 * lists the tags.
 */
function unionErrors(union: ErrorObject, inside: readonly ErrorObject[]): readonly ErrorObject[] {
  const branches = new Map<string, ErrorObject[]>()
  for (const error of inside) {
    const branch = error.schemaPath.slice(union.schemaPath.length + 1).split('/', 1)[0] ?? ''
    const known = branches.get(branch)
    if (known) known.push(error)
    else branches.set(branch, [error])
  }
  const meant = [...branches.values()].filter((errors) => !errors.some((error) => error.keyword === 'const'))
  const [only] = meant
  if (meant.length === 1 && only && branches.size > 1 && meant.length < branches.size) return only
  const fitting = meant.filter((errors) => errors.every((error) => error.instancePath !== union.instancePath))
  if (fitting.length === 1 && fitting[0]) return fitting[0]
  const tags = inside.filter((error) => error.keyword === 'const')
  const at = tags[0]?.instancePath
  if (at === undefined || !tags.every((tag) => tag.instancePath === at)) {
    const message = `must be one of: ${unionWords(union.schema as object[])}`
    return [{ ...union, keyword: 'oneOf', message }]
  }
  const allowed = tags.map((tag) => String(tag.params.allowedValue)).join(', ')
  const data = tags[0]?.data
  const params = { allowedValues: tags.map((tag) => tag.params.allowedValue) }
  return [
    { ...union, instancePath: at, keyword: 'enum', message: `must be one of: ${allowed}`, params, data },
  ]
}

/** Whether a violation is one of a branch of the union, at the same place of the value: entries of a list share a schema. */
function isInside({ schemaPath, instancePath }: ErrorObject, union: ErrorObject): boolean {
  return (
    schemaPath.startsWith(`${union.schemaPath}/`) &&
    (instancePath === union.instancePath || instancePath.startsWith(`${union.instancePath}/`))
  )
}

/**
 * Ajv finds what is wrong inside a union right before the union itself, so each violation is looked at once. Those of no union
 * come first.
 */
function meaningful(errors: readonly ErrorObject[]): ErrorObject[] {
  const told: ErrorObject[] = []
  const ofUnions = new Set<ErrorObject>()
  for (const error of errors) {
    if (error.keyword !== 'anyOf') {
      told.push(error)
      continue
    }
    let first = told.length
    while (first > 0 && isInside(told[first - 1] as ErrorObject, error)) first -= 1
    for (const one of unionErrors(error, told.splice(first))) {
      told.push(one)
      ofUnions.add(one)
    }
  }
  const isPlain = (one: ErrorObject) => !ofUnions.has(one)
  return [...told.filter(isPlain), ...told.filter((one) => !isPlain(one))]
}

/** Whether a parsed value has more than `most` members and entries; it is not looked at beyond them. */
function hasMore(value: unknown, most: number): boolean {
  const left = [value]
  for (let seen = 0; left.length > 0; ) {
    const each = left.pop()
    if (typeof each !== 'object' || each === null) continue
    const held = Array.isArray(each) ? each : Object.values(each)
    seen += held.length
    if (seen > most) return true
    for (const one of held) left.push(one)
  }
  return false
}

/**
 * The value without what stands behind the first entry or character that is one too many: it is refused for that, and to find
 * all faults behind it could take a second.
 */
function cut({ type, items = {}, maxItems, maxLength, properties }: TSchema, value: unknown): unknown {
  // A character has up to two units.
  if (typeof value === 'string') return maxLength ? value.slice(0, 2 * (maxLength + 1)) : value
  if (Array.isArray(value)) {
    if (type !== 'array') return value
    return value.slice(0, (maxItems ?? value.length) + 1).map((each) => cut(items, each))
  }
  if (!isRecord(value) || properties === undefined) return value
  const known = Object.keys(value).filter((name) => Object.hasOwn(properties, name))
  return { ...value, ...Object.fromEntries(known.map((name) => [name, cut(properties[name], value[name])])) }
}

/** A validator of one schema that says what is wrong. */
export function compileCheck<S extends TSchema>(schema: S): (value: unknown) => Checked<S> {
  const first = checkFirst<Static<S>>(schema)
  const whole = checkWhole<Static<S>>(schema)
  return (value) => {
    if (first.conforms(value)) return { ok: true, value }
    const isLarge = hasMore(value, MOST_VALUES)
    const issues = meaningful(isLarge || whole.conforms(cut(schema, value)) ? first.errors() : whole.errors())
      .slice(0, MAX_ISSUES)
      .map((error) => {
        const pointer = pointerOf(error)
        const suggestion = issueSuggestion(error, fieldOf(pointer))
        return { pointer, message: issueMessage(error), keyword: error.keyword, suggestion }
      })
    return { ok: false, issues }
  }
}

/**
 * INVALID_REQUEST for violated rules. `field` and `suggestion` are those of the first one; a violation of the request
 * as a whole names no field.
 */
export function invalidRequest(violations: readonly Violation[]): AdcpError {
  const [first] = violations
  if (!first) throw new Error('No rule is broken')
  const field = fieldOf(first.pointer)
  return {
    ...{ code: 'INVALID_REQUEST', recovery: ERROR_CODES.INVALID_REQUEST },
    message: `${field || 'The request'} ${first.message}.`,
    ...(field !== '' && { field }),
    suggestion: first.suggestion,
    issues: violations.map(({ pointer, message, keyword }) => ({ pointer, message, keyword })),
  }
}
