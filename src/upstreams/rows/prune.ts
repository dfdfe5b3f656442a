/**
 * Cuts a value down to the fields its schema names, before it is validated: what we do not know we do not keep
 * (docs/protocol.md#how-agents-differ). Ajv's own removal cannot be used: inside a union it removes what another
 * branch needs. A null where the schema wants none, and an empty list where it wants elements, mean absent.
 */

import { isRecord } from '../../adcp/json.js'
import type { TObject, TSchema } from '../../adcp/type.js'

const MAX_DEPTH = 8 // of objects whose inner shape the protocol leaves open

/** Gives the same value when there is nothing to cut, so that a clean row costs no copy. */
type Pruner = (value: unknown) => unknown

type Fields = ReadonlyMap<string, { prune: Pruner; nullable: boolean; atLeastOne: boolean }>

const same: Pruner = (value) => value

function acceptsNull({ type, anyOf = [] }: TSchema): boolean {
  return type === 'null' || anyOf.some(acceptsNull)
}

const isObject = (schema: TSchema): schema is TObject => schema.type === 'object' && 'properties' in schema

/** Objects of an open shape: kept whole, unless nested so deep or holding numbers so large that nobody means it. */
function open(value: unknown, depth = 0): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined
  if (typeof value !== 'object' || value === null) return value
  if (depth === MAX_DEPTH) return undefined
  const isBad = (each: unknown) => each !== undefined && open(each, depth + 1) === undefined
  return Object.values(value).some(isBad) ? undefined : value
}

function pruneFields(fields: Fields): Pruner {
  return (value) => {
    if (!isRecord(value)) return value
    let copy: Record<string, unknown> | undefined
    for (const name of Object.keys(value)) {
      const held = value[name]
      const field = fields.get(name)
      const absent =
        !field ||
        (held === null && !field.nullable) ||
        (field.atLeastOne && Array.isArray(held) && held.length === 0)
      const kept = absent ? undefined : field.prune(held)
      if (kept === held) continue
      copy ??= { ...value }
      if (kept === undefined) delete copy[name]
      else copy[name] = kept
    }
    return copy ?? value
  }
}

function pruneItems(item: Pruner): Pruner {
  return (value) => {
    if (!Array.isArray(value)) return value
    let copy: unknown[] | undefined
    for (let at = 0; at < value.length; at++) {
      const kept = item(value[at])
      if (kept === value[at]) continue
      copy ??= [...value]
      copy[at] = kept
    }
    return copy ?? value
  }
}

function objectPruner(schemas: readonly TObject[]): Pruner {
  const fields = new Map<string, { prune: Pruner; nullable: boolean; atLeastOne: boolean }>()
  for (const { properties } of schemas) {
    for (const [name, schema] of Object.entries(properties)) {
      fields.set(name, {
        prune: createPruner(schema),
        nullable: acceptsNull(schema),
        atLeastOne: schema.type === 'array' && (schema.minItems ?? 0) > 0,
      })
    }
  }
  return fields.size === 0 ? open : pruneFields(fields)
}

/**
 * The branch of a union is told by the constants of its first member that differs (`type`, `model`, `scope`,
 * `source`); a value that fits no branch is left for validation to refuse.
 */
function unionPruner(branches: readonly TObject[]): Pruner {
  const tag = Object.entries(branches[0]?.properties ?? {}).find(([, schema]) => 'const' in schema)?.[0]
  if (tag === undefined) return objectPruner(branches)
  const byTag = new Map(branches.map((branch) => [branch.properties[tag]?.const, objectPruner([branch])]))
  return (value) => (isRecord(value) ? (byTag.get(value[tag]) ?? same)(value) : value)
}

/** For values of this schema. */
export function createPruner(schema: TSchema): Pruner {
  if (isObject(schema)) return objectPruner([schema])
  if (schema.type === 'array') {
    const item = createPruner(schema.items)
    return item === same ? same : pruneItems(item)
  }
  if (schema.anyOf?.every(isObject)) {
    return unionPruner(schema.anyOf)
  }
  return same
}
