/**
 * The descriptive members of a row whose signal one listing offers, from the listing's own text and the provider's definition.
 * Signals share few distinct words, so each value is parsed, checked and written once. What differs, or may differ, from what
 * merge/definition.ts makes of the parsed listing is left to that.
 */
import { type Memory, remembered, rememberedBytes } from '../process/remembered.js'
import { hasMember, MEMBER, type Members } from '../upstreams/rows/written.js'
import { type Definition, FIRST_WINS, type Field, mergeDefinition, stated } from './definition.js'
import { afterComma, offerOnlyOf, recalled, writtenMember } from './row-pieces.js'

/** A descriptive field as a member of the row, by the JSON of its value; empty when it does not conform. */
const shownField = (field: Field) => (text: string) => {
  const value = stated({ [field]: JSON.parse(text) }, field)
  return value === undefined ? '' : writtenMember(field, JSON.stringify(value))
}

/**
 * Of an object of legal bases and restrictions: the members that are published, without braces, and the restrictions
 * that the response schema does not know.
 */
const finePrint = remembered((text) => {
  const offers = [offerOnlyOf(JSON.parse(text))]
  const { fields, restrictions } = mergeDefinition(offers, offers, undefined)
  return { text: JSON.stringify(fields).slice(1, -1), restrictions }
})

/** How a member of a listing is written into a row: `text` of its value, after a comma; empty when it is not shown. */
type Told = {
  field: string
  place: number
  text(memory: Memory, start: number, end: number): string
}

const told = (field: keyof typeof MEMBER, text: Told['text']): Told => ({ field, place: MEMBER[field], text })

/** As it stands in the listing, where its reference is before it, and so a comma. */
function asWritten(field: keyof typeof MEMBER): Told {
  const before = writtenMember(field, '').length
  return told(field, ({ bytes }, start, end) => bytes.toString('utf8', start - before, end))
}

/** A word that few agents choose freely: as a member of a row, and itself, without its quotes. */
type Said = { readonly shown: string; readonly word: string | undefined }
const NOT_SAID: Said = { shown: '', word: undefined }

/** A member by whose word signals are filtered. */
function worded(field: Field & keyof typeof MEMBER, shown: (json: string) => string) {
  const place = MEMBER[field]
  const said = rememberedBytes((json): Said => ({ shown: shown(json), word: json.slice(1, -1) }))
  return {
    ...told(field, (memory, start, end) => said(memory, start, end).shown),
    of: (members: Members) => (hasMember(members, place) ? recalled(said, members, place) : NOT_SAID),
  }
}

const NAMES = [asWritten('name'), asWritten('description')] as const
const [NAME, DESCRIPTION] = NAMES
const TYPE = worded('signal_type', (json) => writtenMember('signal_type', json)) // shown whatever it says, as the next
const PROVIDER = worded('data_provider', (json) => writtenMember('data_provider', json))
const VALUE_TYPE = worded('value_type', shownField('value_type'))
/** The other descriptive members, in the order of a row (definition.ts), which those before begin. */
const OTHERS = FIRST_WINS.slice([...NAMES, TYPE, PROVIDER, VALUE_TYPE].length).map((field) =>
  told(field, rememberedBytes(shownField(field))),
)
const DESCRIBING = [TYPE, PROVIDER, VALUE_TYPE, ...OTHERS]
const PRINTED = (
  [
    'consent_basis',
    'art9_basis',
    'demographic_predicate',
    'restricted_attributes',
    'policy_categories',
  ] as const
).map(asWritten)

/** The members that a listing gives, each after a comma. */
function written(fields: readonly Told[], members: Members): string {
  let all = ''
  for (const { place, text } of fields) if (hasMember(members, place)) all += recalled(text, members, place)
  return all
}

const BETWEEN_NAMES = writtenMember(DESCRIPTION.field, '').length

/** The first members of a description: one text where they stand side by side in the listing, as nearly always. */
function namesOf(members: Members): string {
  const { memory, starts, ends } = members
  const [from, to] = [starts[NAME.place] as number, ends[DESCRIPTION.place] as number]
  const isPair = from > 0 && starts[DESCRIPTION.place] === (ends[NAME.place] as number) + BETWEEN_NAMES
  return isPair ? NAME.text(memory, from, to) : written(NAMES, members)
}

/** `names`: the first members of a description, which every reader gets. */
type Described = Record<'names' | 'text', string> &
  Record<'type' | 'provider' | 'valueType', string | undefined> & { restrictions: readonly string[] }

/** The description of a signal whose provider publishes no definition. */
export function described(members: Members): Described {
  const given = written(PRINTED, members)
  const fine = given === '' ? { text: '', restrictions: [] } : finePrint(`{${given.slice(1)}}`)
  const type = TYPE.of(members)
  const provider = PROVIDER.of(members)
  const valueType = VALUE_TYPE.of(members)
  const words = `${type.shown}${provider.shown}${valueType.shown}`
  return {
    names: namesOf(members),
    text: `${words}${written(OTHERS, members)}${afterComma(fine.text)}`,
    restrictions: fine.restrictions,
    type: type.word,
    provider: provider.word,
    valueType: valueType.word,
  }
}

/** The descriptive fields of definitions, which state few distinct values. */
const definedFields = new Map(
  DESCRIBING.map(({ field }) => [field, remembered(shownField(field as Field))] as const),
)

/** Of a definition's legal bases and restrictions, an object: the members that are published, and the other restrictions. */
const definedPrint = remembered((text) => {
  const { fields, restrictions } = mergeDefinition([], [], JSON.parse(text) as Definition)
  return { text: afterComma(JSON.stringify(fields).slice(1, -1)), restrictions }
})

/** What a definition says of a field, as a member of the row; empty when it says nothing that may be published. */
function definedField(definition: Definition, field: string): string {
  const value = definition[field as keyof Definition]
  if (value === undefined) return ''
  const json = JSON.stringify(value)
  return definedFields.get(field)?.(json) ?? writtenMember(field, json)
}

/** The members that a definition or the listing gives; undefined where the two may differ. */
function agreed(fields: readonly Told[], members: Members, definition: Definition) {
  let all = ''
  for (const { field, place, text } of fields) {
    const own = definedField(definition, field)
    const stated = hasMember(members, place) ? recalled(text, members, place) : ''
    if (own !== '' && stated !== '' && own !== stated) return undefined
    all += own || stated
  }
  return all
}

/**
 * The description of a signal with a published definition: the provider's fields, then those of the listing. Undefined
 * where the two may differ, because the row must name such conflicts, and where the listing may add a restriction.
 */
export function defined(members: Members, definition: Definition): Described | undefined {
  if (PRINTED.some(({ place }) => hasMember(members, place))) return undefined
  const names = agreed(NAMES, members, definition)
  if (names === undefined) return undefined
  const fields = agreed(DESCRIBING, members, definition)
  if (fields === undefined) return undefined
  const print: Record<string, unknown> = {}
  for (const { field } of PRINTED) print[field] = definition[field as keyof Definition]
  const { text, restrictions } = definedPrint(JSON.stringify(print))
  const own = definedField(definition, 'value_type') === '' ? undefined : definition.value_type
  const valueType = own ?? VALUE_TYPE.of(members).word
  const [{ word: type }, { word: provider }] = [TYPE.of(members), PROVIDER.of(members)]
  return { names, text: fields + text, restrictions, type, provider, valueType }
}
