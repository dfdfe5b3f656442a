/**
 * Rows that can be kept as they came, read without parsing them: nearly all rows of an agent that speaks the current
 * protocol are such. Each member is checked by itself, by the rules for whole rows (upstreams/rows/listing.ts), and what was found for
 * a value that comes again is remembered. Any doubt leaves the row to those rules.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf, countMembers, measure } from '../../adcp/json.js'
import type { SignalRef } from '../../adcp/reference.js'
import { SignalRow } from '../../adcp/signal.js'
import { type TSchema, Type } from '../../adcp/type.js'
import { createChecks } from '../../adcp/validation.js'
import { createPruner } from './prune.js'
import { remembered } from './remembered.js'
import { findMembers, MEMBER, membersAt, providersRef } from './written.js'

const MAX_DEPTH = 8 // of one member; a row may be deeper, and is parsed then

type Keeps = (json: string) => boolean
type ProvidersRef = Extract<SignalRef, { scope: 'data_provider' }>

const check = createChecks({ strictNumbers: true, unicode: false, logger: false })

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined // no value of JSON
  }
}

/** Whether a text can stand in a kept row: nearly every row has its own, so it is looked at each time. */
function keepsText({ minLength = 0, maxLength = Number.POSITIVE_INFINITY }: TSchema): Keeps {
  return (json) => {
    const value = parsed(json)
    return typeof value === 'string' && value.length >= minLength && value.length <= maxLength
  }
}

/** Whether a value can stand in a kept row as it is: valid, nothing to cut, no name twice. */
function keepsValue(name: string, schema: TSchema): Keeps {
  const alone = Type.Object({ [name]: schema })
  const prune = createPruner(alone)
  const { conforms } = check(alone)
  return (json) => {
    const value = parsed(json)
    const member = { [name]: value }
    if (value === undefined || prune(member) !== member || !conforms(member)) return false
    if (typeof value !== 'object' || value === null) return true
    const { depth, members } = measure(Buffer.from(json))
    return depth <= MAX_DEPTH && members === countMembers(value)
  }
}

const { signal_ref: Ref, signal_id: Id, ...others } = SignalRow.properties
const { conforms: isRef } = check(Ref)
const REQUIRED: ReadonlySet<string> = new Set(SignalRow.required)
const TEXTS: ReadonlySet<string> = new Set(['signal_agent_segment_id', 'name', 'description'])

const keepsId = keepsValue('signal_id', Id)

/**
 * Whether a legacy id can stand beside a reference that is kept: nearly always it says the same in its own words. The
 * domain and the id are of a reference that was checked, so nothing in them is escaped.
 */
function isIdBeside({ data_provider_domain: domain, signal_id: id }: ProvidersRef, json: string): boolean {
  return json === `{"source":"catalog","data_provider_domain":"${domain}","id":"${id}"}` || keepsId(json)
}

/** The members besides the references. */
const MEMBERS = Object.entries(others).map(([name, schema]) => ({
  place: MEMBER[name as keyof typeof MEMBER],
  isRequired: REQUIRED.has(name),
  isKept: TEXTS.has(name) ? keepsText(schema) : remembered(keepsValue(name, schema)),
}))

/**
 * A row that is kept as it came: its segment, the domain of the provider whose signal it is, and how many members it has.
 */
type PlainRow = { segment: string; domain: string; members: number }

/** Undefined for every other row. The places of its members are written into `places` (upstreams/rows/written.ts). */
export function readPlain(raw: Uint8Array, places: Uint32Array): PlainRow | undefined {
  if (!isUtf8(raw)) return undefined
  const text = bufferOf(raw).toString()
  const ref = providersRef(text)
  if (ref?.scope !== 'data_provider' || !isRef(ref)) return undefined
  const count = findMembers(text, places)
  if (count === 0) return undefined
  const members = membersAt(text, places, 0, count)
  const id = members[MEMBER.signal_id]
  if (id !== undefined && !isIdBeside(ref, id)) return undefined
  for (const { place, isRequired, isKept } of MEMBERS) {
    const json = members[place]
    if (json === undefined ? isRequired : !isKept(json)) return undefined
  }
  const segment = members[MEMBER.signal_agent_segment_id] as string
  return { segment: segment.slice(1, -1), domain: ref.data_provider_domain, members: count }
}
