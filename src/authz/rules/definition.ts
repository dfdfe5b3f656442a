/**
 * What a provider says a signal is, field by field. A field that does not conform is left out and reported; the others
 * are kept (docs/protocol.md#provider-files). Nothing is repaired or added.
 */
import { type Check, createChecks } from '../../adcp/validation.js'
import { definitionSchemas, type SignalDefinition } from './definition-schema.js'
import type { Diagnostic } from './diagnostic.js'
import { guard } from './guards.js'
import type { PublishedSignal, Rules } from './rules.js'

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
