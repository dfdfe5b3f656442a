/** Every rule of every request schema is refused with a field, an expectation in plain words and a suggestion. */
import { test } from 'tap'
import { compileCheck, invalidRequest, type TSchema, Type } from '../../src/adcp/schema.js'
import { ActivateSignalRequest, GetSignalsRequest } from '../../src/adcp/signal-requests.js'
import * as accounts from '../../src/adcp/task-schemas.js'
import {
  CapabilitiesRequest,
  GetTaskStatusRequest,
  ListTasksRequest,
  ReportUsageRequest,
} from '../../src/adcp/task-schemas.js'
import { PushConfig } from '../../src/events/webhook.js'

const REQUESTS: Record<string, TSchema> = {
  CapabilitiesRequest,
  GetSignalsRequest,
  ActivateSignalRequest,
  GetTaskStatusRequest,
  ListTasksRequest,
  ListAccountsRequest: accounts.ListAccountsRequest,
  SyncAccountsRequest: accounts.SyncAccountsRequest,
  ReportUsageRequest,
  PushConfig,
}

type Json = { [name: string]: unknown }
type Node = {
  type?: string
  const?: unknown
  enum?: unknown[]
  pattern?: string
  format?: string
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  minimum?: number
  maximum?: number
  uniqueItems?: boolean
  additionalProperties?: unknown
  required?: string[]
  properties?: Record<string, Node>
  items?: Node
  anyOf?: Node[]
}

const SAMPLES = ['DE', 'USD', 'acme.example', '3.1', 'abcdefghijklmnop', 'https://acme.example/']

/** A value that the schema takes, with as little in it as may be. */
function sample(node: Node): unknown {
  if (node.anyOf) return sample(node.anyOf[0] as Node)
  if (node.const !== undefined) return node.const
  if (node.enum) return node.enum[0]
  if (node.type === 'object') {
    const { required = [], properties = {} } = node
    return Object.fromEntries(required.map((name) => [name, sample(properties[name] as Node)]))
  }
  if (node.type === 'array')
    return Array.from({ length: node.minItems ?? 0 }, () => sample(node.items as Node))
  if (node.type === 'boolean') return true
  if (node.type === 'integer' || node.type === 'number') return node.minimum ?? 1
  if (node.format === 'date-time') return '2026-03-01T00:00:00Z'
  if (node.format === 'uri') return 'https://acme.example/'
  if (node.pattern) return SAMPLES.find((one) => new RegExp(node.pattern as string).test(one))
  return 'x'.repeat(Math.max(1, node.minLength ?? 1))
}

/** Values that each break one rule of the node, with what stands around them valid. */
function* broken(node: Node): Generator<{ rule: string; value: unknown }> {
  if (node.anyOf) {
    yield { rule: 'anyOf', value: 12.5 }
    for (const branch of node.anyOf) {
      for (const one of broken(branch)) if (typeof one.value === 'object' && one.value !== null) yield one
    }
    return
  }
  if (node.type && node.const === undefined) yield { rule: 'type', value: node.type === 'object' ? 'x' : {} }
  if (node.pattern) yield { rule: 'pattern', value: node.pattern === '\\S' ? '  ' : '\u0000 é' }
  if (node.format) yield { rule: 'format', value: 'x x' }
  if (node.minLength && !node.pattern) yield { rule: 'minLength', value: '' }
  if (node.maxLength && !node.pattern && !node.format)
    yield { rule: 'maxLength', value: 'x'.repeat(node.maxLength + 1) }
  if (node.minimum !== undefined) yield { rule: 'minimum', value: node.minimum - 1 }
  if (node.maximum !== undefined) yield { rule: 'maximum', value: node.maximum + 1 }
  if (node.enum) yield { rule: 'enum', value: 'no such word' }
  if (node.type === 'array' && node.items) {
    const { items } = node
    const one = sample(items)
    if (node.minItems) yield { rule: 'minItems', value: [] }
    if (node.maxItems && node.maxItems <= 1_000 && !node.uniqueItems) {
      yield { rule: 'maxItems', value: Array.from({ length: node.maxItems + 1 }, () => one) }
    }
    if (node.uniqueItems) yield { rule: 'uniqueItems', value: [one, one] }
    for (const { rule, value } of broken(items)) yield { rule: `[] ${rule}`, value: [value] }
  }
  if (node.type !== 'object') return
  const whole = sample(node) as Json
  for (const name of node.required ?? []) {
    const { [name]: _, ...rest } = whole
    yield { rule: `${name} required`, value: rest }
  }
  if (node.additionalProperties === false)
    yield { rule: 'additionalProperties', value: { ...whole, surprise: 1 } }
  for (const [name, member] of Object.entries(node.properties ?? {})) {
    for (const { rule, value } of broken(member))
      yield { rule: `${name} ${rule}`, value: { ...whole, [name]: value } }
  }
}

const UNHELPFUL =
  /must match|does not have the form|none of the shapes|another value|in the form that|NOT|undefined|\[object/

for (const [name, schema] of Object.entries(REQUESTS)) {
  test(name, (t) => {
    const check = compileCheck(schema)
    let rules = 0
    const unhelpful: string[] = []
    for (const { rule, value } of broken(schema as Node)) {
      const checked = check(value)
      if (checked.ok) continue // another branch of a union takes it
      rules += 1
      const error = invalidRequest(checked.issues)
      const said = `${rule}: ${JSON.stringify(error)}`
      const namesField = typeof value !== 'object' || rule === 'type' || Boolean(error.field)
      const suggests = (error.suggestion ?? '').length > 8
      const isPlain = !UNHELPFUL.test(`${error.message} ${error.suggestion}`)
      const saysWhat = /(must|is required|is not known here)/.test(error.message)
      if (!(namesField && suggests && isPlain && saysWhat)) unhelpful.push(said)
    }
    t.comment(`${rules} rules`)
    t.same(unhelpful, [])
    t.ok(rules > 5)
    t.end()
  })
}

test('a rule says what it wants, and what to send instead', (t) => {
  const texts = Type.Array(Type.String(), { minItems: 1, maxItems: 2, uniqueItems: true })
  const check = compileCheck(
    Type.Object(
      {
        text: Type.String({ minLength: 1, maxLength: 2 }),
        long: Type.Optional(Type.String({ minLength: 2 })),
        texts: Type.Optional(texts),
        number: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
        word: Type.Optional(Type.Union([Type.Literal('one'), Type.Literal('two')])),
        shape: Type.Optional(
          Type.Union([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })]),
        ),
        domain: Type.Optional(Type.String({ pattern: '^[a-z.]+$' })),
      },
      { additionalProperties: false },
    ),
  )
  const filling = (field: string) => `Fill ${field}, or leave it out where it is optional.`
  const fewer = 'Send fewer entries, in several requests where that is possible.'
  for (const [value, message, suggestion] of [
    [{ text: '' }, 'text must not be empty.', filling('text')],
    [{ long: '' }, 'long must have at least 2 characters.', filling('long')],
    [{ text: 'abc' }, 'text must have at most 2 characters.', 'Shorten text.'],
    [{ texts: [] }, 'texts must not be an empty list.', filling('texts')],
    [{ texts: ['a', 'b', 'c'] }, 'texts must have at most 2 entries.', fewer],
    [{ texts: ['a', 'a'] }, 'texts must not name anything twice.', 'Name each entry of texts once.'],
    [{ number: 0 }, 'number must be at least 1.', 'Send number as at least 1.'],
    [{ number: 6 }, 'number must be at most 5.', 'Send number as at most 5.'],
    [{ word: 'three' }, 'word must be one of: one, two.', 'Send one of one, two.'],
    [{ shape: {} }, 'shape must be one of: {a} or {b}.', 'Send shape as {a} or {b}.'],
    [{ domain: 'Germany' }, 'domain must be in the form that this field has.', /^Send domain as in the form/],
    [{ numbr: 1 }, 'numbr is not known here.', 'Did you mean "number"?'],
    [{ text: undefined }, 'text is required.', 'Send text: a text.'],
    [7, 'The request must be an object.', 'Send the request as an object.'],
  ] as const) {
    const checked = check(typeof value === 'object' ? { text: 'a', ...value } : value)
    t.match(checked.ok ? {} : invalidRequest(checked.issues), { message, suggestion })
  }
  t.end()
})

test('near misses are named from the closed set, and no value of the request is', (t) => {
  const check = compileCheck(GetSignalsRequest)
  const suggestionOf = (request: object) => {
    const checked = check(request)
    return checked.ok ? 'accepted' : (invalidRequest(checked.issues).suggestion ?? '')
  }
  t.equal(suggestionOf({ discovery_mode: 'wholsale' }), 'Did you mean "wholesale"?')
  t.equal(suggestionOf({ fields: ['pricing_option'] }), 'Did you mean "pricing_options"?')
  t.equal(suggestionOf({ countries: ['germany'] }), 'Did you mean "DE"?')
  t.match(suggestionOf({ countries: ['1234'] }), /two capital letters .*such as DE/)
  t.notMatch(suggestionOf({ discovery_mode: '<script>' }), /script/)
  const tasks = compileCheck(ListTasksRequest)({ filters: { status: 'complete' } })
  t.match(tasks.ok ? {} : invalidRequest(tasks.issues), {
    field: 'filters.status',
    suggestion: 'Did you mean "completed"?',
  })
  t.end()
})
