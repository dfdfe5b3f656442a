/**
 * What a provider says a signal is, field by field: a field that does not conform is left out and named, the others
 * stand (docs/protocol.md#provider-files). Nothing is repaired, nothing is added.
 */
import { type Check, createChecks } from '../../adcp/validation.js'
import { definitionSchemas, type SignalDefinition } from './definition-schema.js'
import type { Diagnostic } from './diagnostic.js'
import { guard } from './guards.js'
import type { PublishedSignal, Rules } from './rules.js'

// Copied into a plain object by assignment, these names would reach its prototype instead.
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

/** The definition, and the fields of the file that are not in it because they do not conform. */
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

/** The provider's definition of the signal; undefined when it publishes none by that id. */
export function definitionOf(rules: Rules, signalId: string): SignalDefinition | undefined {
  const signal = rules.signalNumber(signalId)
  return signal < 0 ? undefined : read(rules.signal(signal)).definition
}

/** What is left out of a definition and what is odd about it (specification's conditional rules). */
export function diagnoseDefinition(signal: PublishedSignal): Diagnostic[] {
  const at = (field: string) => `/signals/${signal.index}/${field}`
  const { definition, left } = read(signal)
  const skipped = left.map(
    (field): Diagnostic => ({ at: at(field), effect: 'skipped', message: 'does not conform to the schema' }),
  )
  // What a field that was left out would have said is not known: only what is there can be odd.
  const odd = guard(definition, signal.row).filter(({ field }) => !left.includes(field))
  return [
    ...skipped,
    ...odd.map(({ field, message }): Diagnostic => ({ at: at(field), effect: 'noted', message })),
  ]
}
