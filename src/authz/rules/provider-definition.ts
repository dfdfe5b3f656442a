/**
 * What a provider says a signal is, field by field. A field that does not conform is left out and reported; the others
 * are kept (docs/protocol.md#provider-files). Nothing is repaired or added.
 */
import { type Check, createChecks } from '../../adcp/validation.js'
import { definitionSchemas, type SignalDefinition } from './definition-schema.js'
import type { Diagnostic } from './diagnostic.js'
import type { PublishedSignal, Rules } from './rules.js'

const OFFLINE = new Set([
  'offline_survey',
  'public_record_census',
  'public_record_voter_file',
  'public_record_other',
  'offline_transaction',
])
const CORE_RIGHTS = new Set(['access', 'erasure', 'objection'])

type Guard = (
  definition: SignalDefinition,
  row: Readonly<Record<string, unknown>>,
) => { field: string; message: string } | undefined

const guards: readonly Guard[] = [
  ({ methodology, modeling }) =>
    methodology === 'modeled' && !modeling
      ? { field: 'modeling', message: 'methodology is modeled, and modeling is missing' }
      : undefined,
  ({ audience_expansion, modeling }) =>
    audience_expansion && !modeling
      ? { field: 'modeling', message: 'audience_expansion is true, and modeling is missing' }
      : undefined,
  ({ data_sources, onboarder }) =>
    data_sources?.some((source) => OFFLINE.has(source)) && !onboarder
      ? { field: 'onboarder', message: 'an offline or public-record source needs onboarder' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights && !rights.channels.some((channel) => channel.rights.some((right) => CORE_RIGHTS.has(right)))
      ? { field: 'data_subject_rights', message: 'no channel supports access, erasure or objection' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights?.channels.some(({ url, email }) => url === undefined && email === undefined)
      ? { field: 'data_subject_rights', message: 'a channel has neither url nor email' }
      : undefined,
  ({ value_type, taxonomy }) =>
    value_type === 'categorical' && taxonomy && !taxonomy.value_mappings
      ? { field: 'taxonomy', message: 'a categorical signal with a taxonomy needs value_mappings' }
      : undefined,
  ({ categories, taxonomy }) =>
    categories && taxonomy?.value_mappings?.some(({ value }) => !categories.includes(value))
      ? { field: 'taxonomy', message: 'value_mappings names a value that allowed_values has not' }
      : undefined,
  (_, row) =>
    row.audience_scope === 'single_domain' && row.originating_domain === undefined
      ? { field: 'originating_domain', message: 'audience_scope is single_domain without it' }
      : undefined,
  ({ name }) => (name === undefined ? { field: 'name', message: 'the name is missing' } : undefined),
  ({ value_type }) =>
    value_type === undefined ? { field: 'value_type', message: 'the value_type is missing' } : undefined,
]

/**
 * What looks wrong in a definition as a whole: its conditional rules, as runtime guards (schema core/signal-definition: "SDK
 * generators that drop those keywords need equivalent runtime guards"). They report and never repair.
 */
function guard(definition: SignalDefinition, row: Readonly<Record<string, unknown>>) {
  return guards.flatMap((check) => check(definition, row) ?? [])
}

// Assigning these names to a plain object would change its prototype.
const HOSTILE = new Set(['__proto__', 'constructor', 'prototype'])

const makeCheck = createChecks()
const checks: ReadonlyMap<string, Check<unknown>> = new Map(
  Object.entries(definitionSchemas).map(([field, schema]) => [field, makeCheck(schema)]),
)

function hostile(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hostile)
  return Object.entries(value).some(([name, member]) => HOSTILE.has(name) || hostile(member))
}

function empty(value: { min: number; max: number }): boolean {
  return value.min > value.max
}

function mayStand(field: string, value: unknown, { conforms }: Check<unknown>): boolean {
  if (!conforms(value) || hostile(value)) return false
  return field !== 'range' || !empty(value as { min: number; max: number })
}

/** The definition, and the fields of the file that were left out because they do not conform. */
function read({ id, tags, row }: PublishedSignal): { definition: SignalDefinition; left: string[] } {
  const fields: Record<string, unknown> = {}
  const left: string[] = []
  for (const [field, value] of Object.entries(row)) {
    const check = checks.get(field)
    if (!check) continue
    if (mayStand(field, value, check)) fields[field === 'allowed_values' ? 'categories' : field] = value
    else left.push(field)
  }
  return { definition: { ...fields, id, tags }, left }
}

/** The provider's definition of the signal; undefined when it publishes none under that id. */
export function definitionOf(rules: Rules, signalId: string): SignalDefinition | undefined {
  const signal = rules.signalNumber(signalId)
  return signal < 0 ? undefined : read(rules.signal(signal)).definition
}

/** Which fields of a definition were left out, and which look wrong (the specification's conditional rules). */
export function diagnoseDefinition(signal: PublishedSignal): Diagnostic[] {
  const at = (field: string) => `/signals/${signal.index}/${field}`
  const { definition, left } = read(signal)
  const skipped = left.map(
    (field): Diagnostic => ({ at: at(field), effect: 'skipped', message: 'does not conform to the schema' }),
  )
  // The content of a field that was left out is unknown, so only the others can be checked for what looks wrong.
  const odd = guard(definition, signal.row).filter(({ field }) => !left.includes(field))
  return [
    ...skipped,
    ...odd.map(({ field, message }): Diagnostic => ({ at: at(field), effect: 'noted', message })),
  ]
}
