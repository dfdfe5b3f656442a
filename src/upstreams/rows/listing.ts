/**
 * One row as it came -> one listing, or the reason it cannot be one. This is the only place where a row's bytes get
 * their meaning: they are parsed once, a row that could be read in two ways is refused, rows of earlier protocol releases are
 * read into the current shape, what we do not know is cut (docs/protocol.md#how-agents-differ), and what is kept is written
 * from what was validated. Rows stand alone: a bad one never costs the page (specification, "Signal").
 */
import { bufferOf, countMembers, isRecord, measure } from '../../adcp/json.js'
import { createChecks, type TObject, type TSchema } from '../../adcp/schema.js'
import { refFromLegacy, SIGNAL_TYPES, type SignalId, SignalRow } from '../../adcp/signal.js'
import type { Listing, Quirk } from './slice.js'
import { isWritten, writeListing } from './written.js'

/** The largest row that is read when nothing else is said. */
export const ROW_BYTES = 256 * 1024
const MAX_DEPTH = 32 // the protocol's deepest field stands at nine
const MAX_OPEN_DEPTH = 8 // of objects whose inner shape the protocol leaves open
const TYPES: ReadonlySet<unknown> = new Set(SIGNAL_TYPES)
const FIELDS = new Set(Object.keys(SignalRow.properties))
// Control characters and halves of surrogate pairs. Tab and line breaks stand in honest descriptions; U+0000 and a half
// pair no database takes, and the others steer terminals.
// biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are looked for
const BAD_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]|\p{Surrogate}/u

type Row = Record<string, unknown>

/** Before 3.0 a price was one object, `pricing`; the ids are ours, and are never sent back to such an agent. */
function pricingOptions(pricing: Row): Row[] {
  const { cpm, revenue_share_percentage: percent, currency } = pricing
  const base = { currency }
  const options: Row[] = []
  if (typeof cpm === 'number') options.push({ pricing_option_id: 'cpm', model: 'cpm', cpm, ...base })
  if (typeof percent === 'number') {
    options.push({ pricing_option_id: 'percent_of_media', model: 'percent_of_media', percent, ...base })
  }
  return options
}

/** Before 3.0 a deployment was always a platform's, its key a bare segment id. */
function deployment(raw: unknown): unknown {
  if (!isRecord(raw)) return raw
  const key = raw.decisioning_platform_segment_id
  const needsKey = raw.is_live === true && raw.activation_key === undefined && typeof key === 'string'
  if (raw.type !== undefined && !needsKey) return raw
  return {
    ...raw,
    type: raw.type ?? (raw.platform === undefined ? 'agent' : 'platform'),
    ...(needsKey && { activation_key: { type: 'segment_id', segment_id: key } }),
  }
}

function isOldDeployment(raw: unknown): boolean {
  return deployment(raw) !== raw
}

/**
 * Before 3.0 `signal_type` told the kind of data ("audience"): a row that names its provider is resold, one that does
 * not is the source's own.
 */
function signalType(row: Row): string {
  return typeof row.data_provider === 'string' && row.data_provider !== '' ? 'marketplace' : 'owned'
}

function isLegacyId(id: unknown): id is SignalId {
  return isRecord(id) && (id.source === 'catalog' || id.source === 'agent')
}

/** Domain names compare in lower case (specification, "SignalRef"; DNS). */
function lowerDomain(named: unknown): unknown {
  if (!isRecord(named) || typeof named.data_provider_domain !== 'string') return named
  const domain = named.data_provider_domain.toLowerCase()
  return domain === named.data_provider_domain ? named : { ...named, data_provider_domain: domain }
}

/** The same object, without quirks, when the row is current already. */
function modernise(row: Row): { row: Row; quirks: readonly Quirk[] } {
  const changes: Row = {}
  const quirks: Quirk[] = []
  function change(quirk: Quirk, member: keyof typeof SignalRow.properties, value: unknown): void {
    quirks.push(quirk)
    changes[member] = value
  }
  const id = lowerDomain(row.signal_id)
  const ref = lowerDomain(row.signal_ref)
  if (id !== row.signal_id) change('capital_domain', 'signal_id', id)
  if (ref !== row.signal_ref) change('capital_domain', 'signal_ref', ref)
  if (!isRecord(ref) && isLegacyId(id)) change('signal_id', 'signal_ref', refFromLegacy(id))
  if (row.signal_agent_segment_id === undefined && row.signals_agent_segment_id !== undefined) {
    change('signals_agent_segment_id', 'signal_agent_segment_id', row.signals_agent_segment_id)
  }
  if (!TYPES.has(row.signal_type)) change('signal_type', 'signal_type', signalType(row))
  if (row.pricing_options === undefined && isRecord(row.pricing)) {
    change('pricing', 'pricing_options', pricingOptions(row.pricing))
  }
  if (Array.isArray(row.deployments) && row.deployments.some(isOldDeployment)) {
    change('deployments', 'deployments', row.deployments.map(deployment))
  }
  return { row: quirks.length > 0 ? { ...row, ...changes } : row, quirks }
}

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
  if (depth === MAX_OPEN_DEPTH) return undefined
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

/** For values of this schema; one that says nothing leaves its values open. */
export function createPruner(schema: TSchema): Pruner {
  if (Object.keys(schema).length === 0) return open
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

/** Why a row was read and not kept; `bad_<field>` names the first field that breaks the schema. */
export type Dropped =
  | 'too_large'
  | 'too_deep'
  | 'malformed'
  | 'duplicate_member'
  | 'control_characters'
  | 'product_scope'
  | 'repeated'
  | 'holds_secret'
  | `bad_${string}`

type ReadRow =
  /** `bytes`: the listing as it is kept. */
  | { kind: 'listing'; listing: Listing; bytes: Buffer; quirks: readonly Quirk[] }
  /** `row` as far as it could be read, so that a person can tell which row it was. */
  | { kind: 'dropped'; reason: Dropped; row?: Readonly<Record<string, unknown>> }

/**
 * Makes the checks of rows and their members. Lengths count in UTF-16 units (`unicode: false`; ajv would warn): counting code
 * points is a tenth of reading a row, and the bounds are ours.
 */
export const checkRows = createChecks({ strictNumbers: true, unicode: false, logger: false })
const { conforms, errors } = checkRows<Listing>(SignalRow)
const prune = createPruner(SignalRow)

/** Undefined for what is not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Looks at texts and at names: what came in an escape may be either. */
export function hasBadText(value: unknown): boolean {
  if (typeof value === 'string') return BAD_TEXT.test(value)
  if (Array.isArray(value)) return value.some(hasBadText)
  if (!isRecord(value)) return false
  return Object.entries(value).some(([name, held]) => BAD_TEXT.test(name) || hasBadText(held))
}

/** A closed set of words: whatever an agent sends, the reasons stay countable. */
function badField(): Dropped {
  for (const { instancePath, keyword, params } of errors()) {
    const named =
      instancePath === '' && keyword === 'required'
        ? String(params.missingProperty)
        : instancePath.split('/')[1]
    if (named !== undefined && FIELDS.has(named)) return `bad_${named}`
  }
  return 'bad_row'
}

/** `maxBytes`: of the row as it came. */
export function readRow(raw: Uint8Array, maxBytes = ROW_BYTES): ReadRow {
  if (raw.byteLength > maxBytes) return { kind: 'dropped', reason: 'too_large' }
  const { depth, members, escaped } = measure(raw)
  if (depth > MAX_DEPTH) return { kind: 'dropped', reason: 'too_deep' }
  const parsed = parsedJson(bufferOf(raw).toString())
  if (!isRecord(parsed)) return { kind: 'dropped', reason: 'malformed' }
  // `JSON.parse` keeps the last of two members of one name; whoever reads the bytes otherwise may take the first.
  if (countMembers(parsed) !== members) return { kind: 'dropped', reason: 'duplicate_member', row: parsed }
  const current = modernise(parsed)
  const row = prune(current.row)
  if (!conforms(row)) return { kind: 'dropped', reason: badField(), row: parsed }
  if (escaped && hasBadText(row)) return { kind: 'dropped', reason: 'control_characters', row: parsed }
  if (row.signal_ref?.scope === 'product') return { kind: 'dropped', reason: 'product_scope', row: parsed }
  const isAsWritten = row === parsed && !escaped && isWritten(raw)
  return {
    kind: 'listing',
    listing: row,
    quirks: current.quirks,
    bytes: isAsWritten ? bufferOf(raw) : Buffer.from(writeListing(row)),
  }
}
