/**
 * What the feed page asks, as the query string of its own address, so that every state of the page is a link. Parameters
 * that get_signals knows become its arguments and are checked with its schema; the others narrow and order the result.
 */
import { isRecord } from '../adcp/json.js'
import { GetSignalsRequest, selectionOf } from '../adcp/requests/get-signals.js'
import { VALUE_TYPES, type ValueType } from '../adcp/signal.js'
import { Type } from '../adcp/type.js'
import { compileCheck, fieldOf } from '../adcp/validation.js'
import type { Selection } from '../feed/query.js'

/** The orders of the feed page. */
export const SORTS = ['relevance', 'price', 'price_desc', 'coverage', 'name', 'provider', 'sellers'] as const
export type Sort = (typeof SORTS)[number]

const MOST_TEXT = 500
const MOST_ROWS = 100
const DEFAULT_ROWS = 50

/** Where a page ended: how many rows of a search it showed so far, or the value and the handle of its last row. */
const PLACE = /^-?\d[\d.e+-]*(?: sig_[\w-]{22})?$/

export type FeedQuestion = {
  /** The arguments of get_signals that choose the same signals, without `signal_spec`. */
  asked: Readonly<Record<string, unknown>>
  selection: Selection
  /** The words that are looked for; empty for none. */
  text: string
  /** Only signals that one of these upstreams (ids) sells, and that have one of these value types; empty for all. */
  upstreams: readonly string[]
  valueTypes: readonly ValueType[]
  account?: string
  sort?: Sort
  after?: string
  limit: number
}

type QuestionRead =
  | { kind: 'question'; question: FeedQuestion }
  | { kind: 'bad'; problem: { error: string; parameter: string } }

const checkSelection = compileCheck(
  Type.Pick(GetSignalsRequest, ['filters', 'destinations', 'countries', 'signal_spec']),
)

/** The parameters that a field of the request is read from. */
const PARAMETERS: Readonly<Record<string, string>> = {
  'filters.catalog_types': 'type',
  'filters.data_providers': 'provider',
  'filters.max_cpm': 'max_cpm',
  'filters.max_percent': 'max_percent',
  'filters.min_coverage_percentage': 'min_coverage',
  destinations: 'destination',
  countries: 'country',
}

const bad = (parameter: string, expected: string): QuestionRead => ({
  kind: 'bad',
  problem: { error: `Invalid ${parameter}: ${expected}`, parameter },
})

/** `platform:NAME` or `agent:URL`, as facets name them; `#` and an account may follow. */
function destinationOf(text: string): object {
  const [, type, name = '', account] = /^(platform|agent):([^#]*)(?:#(.*))?$/s.exec(text) ?? []
  const own = account === undefined ? {} : { account }
  if (type === 'platform') {
    return { type, platform: name.replaceAll('%23', '#').replaceAll('%25', '%'), ...own }
  }
  return { type: 'agent', agent_url: type ? name : text, ...own }
}

function numberOf(text: string | null): unknown {
  if (text === null || text === '') return undefined
  return Number.isFinite(Number(text)) ? Number(text) : text // the schema refuses a text, and names the field
}

/** Without members that are undefined or an empty list; undefined when none is left. */
function said(members: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  const told = Object.entries(members).filter(([, value]) => !(Array.isArray(value) && value.length === 0))
  const left = told.filter(([, value]) => value !== undefined)
  return left.length > 0 ? Object.fromEntries(left) : undefined
}

function argumentsOf(params: URLSearchParams): Record<string, unknown> {
  const currency = params.get('currency')
  const filters = said({
    catalog_types: params.getAll('type'),
    data_providers: params.getAll('provider'),
    max_cpm: numberOf(params.get('max_cpm')),
    max_percent: numberOf(params.get('max_percent')),
    min_coverage_percentage: numberOf(params.get('min_coverage')),
    ext: currency ? { tributary: { currency } } : undefined,
  })
  return (
    said({
      filters,
      destinations: params.getAll('destination').map(destinationOf),
      countries: params.getAll('country').map((country) => country.toUpperCase()),
    }) ?? {}
  )
}

const isSort = (text: string): text is Sort => (SORTS as readonly string[]).includes(text)
const isValueType = (text: string): text is ValueType => (VALUE_TYPES as readonly string[]).includes(text)

/** The question of a query string, or which parameter is wrong. */
export function readFeedQuestion(params: URLSearchParams): QuestionRead {
  const text = (params.get('q') ?? '').trim()
  if (text.length > MOST_TEXT) return bad('q', `expected at most ${MOST_TEXT} characters`)
  const sort = params.get('sort') || undefined
  if (sort !== undefined && !isSort(sort)) return bad('sort', `expected one of ${SORTS.join(', ')}`)
  const valueTypes = params.getAll('value_type')
  if (!valueTypes.every(isValueType)) return bad('value_type', `expected one of ${VALUE_TYPES.join(', ')}`)
  const limit = numberOf(params.get('limit')) ?? DEFAULT_ROWS
  if (!Number.isInteger(limit) || !((limit as number) >= 1 && (limit as number) <= MOST_ROWS)) {
    return bad('limit', `expected 1 to ${MOST_ROWS}`)
  }
  const asked = argumentsOf(params)
  const checked = checkSelection(asked)
  if (!checked.ok) {
    const [{ pointer, message } = { pointer: '', message: 'is not valid' }] = checked.issues
    const field = fieldOf(pointer).replace(/\[\d+\].*$/, '')
    return bad(PARAMETERS[field] ?? 'filters', message)
  }
  const [account, after] = [params.get('account'), params.get('after')]
  if (after && !PLACE.test(after)) return bad('after', 'expected `next` of the page before')
  return {
    kind: 'question',
    question: {
      asked: isRecord(checked.value) ? checked.value : {},
      selection: selectionOf(checked.value),
      ...{ text, valueTypes, upstreams: params.getAll('upstream'), limit: limit as number },
      ...(account && { account }),
      ...(sort !== undefined && { sort }),
      ...(after && { after }),
    },
  }
}
