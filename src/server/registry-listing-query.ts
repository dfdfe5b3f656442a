/**
 * The query of the registry listing (specification, "Registry listing"): every parameter with its rule. A parameter we
 * do not know is ignored, as the real registry does with paging (FACTS 9); a bad value is a 400 that says what is allowed.
 */
export const AGENT_TYPES = [
  'brand',
  'rights',
  'measurement',
  'governance',
  'creative',
  'sales',
  'buying',
  'signals',
  'unknown',
] as const
export type AgentType = (typeof AGENT_TYPES)[number]

export const FLAGS = ['health', 'capabilities', 'properties', 'compliance'] as const
export type Flag = (typeof FLAGS)[number]

const AXES = ['spec', 'live'] as const
export type Axis = (typeof AXES)[number]

const MAX_Q = 64
const MAX_VALUES = 50 // of one repeated parameter
const MAX_VALUE = 200

export type ListingQuery = {
  type?: AgentType
  flags: ReadonlySet<Flag>
  /** OR within each list; the parameters are AND'd. */
  metricIds: readonly string[]
  accreditations: readonly string[]
  q?: string
  /** All of them must be covered. */
  axes: readonly Axis[]
  verified: boolean
}

export type BadParameter = { error: string; parameter: string; valid_values?: readonly string[] }

export type ReadQuery = { kind: 'query'; query: ListingQuery } | { kind: 'bad'; problem: BadParameter }

/** Thrown inside this file only, so that each rule reads as one line. */
class Bad extends Error {
  constructor(readonly problem: BadParameter) {
    super(problem.error)
  }
}

function bad(parameter: string, said: string, allowed?: readonly string[]): Bad {
  const error = `Invalid ${parameter}: ${said}`
  return new Bad({ error, parameter, ...(allowed && { valid_values: allowed }) })
}

function one(params: URLSearchParams, name: string): string | undefined {
  const [value, ...more] = params.getAll(name)
  if (more.length > 0) throw bad(name, 'it is given more than once')
  return value
}

function word<W extends string>(name: string, value: string, allowed: readonly W[]): W {
  const known = allowed.find((each) => each === value)
  if (known === undefined) throw bad(name, `expected ${allowed.join(', ')}`, allowed)
  return known
}

function isSet(params: URLSearchParams, name: string): boolean {
  const value = one(params, name)
  return value !== undefined && word(name, value, ['true']) === 'true'
}

function texts(params: URLSearchParams, name: string): string[] {
  const values = [...new Set(params.getAll(name))]
  if (values.length > MAX_VALUES) throw bad(name, `it is given more than ${MAX_VALUES} times`)
  if (values.some((value) => value === '' || value.length > MAX_VALUE)) {
    throw bad(name, `expected 1 to ${MAX_VALUE} characters`)
  }
  return values
}

function search(params: URLSearchParams): string | undefined {
  const q = one(params, 'q')
  if (q !== undefined && [...q].length > MAX_Q) throw bad('q', `expected at most ${MAX_Q} characters`)
  return q
}

function read(params: URLSearchParams): ListingQuery {
  const type = one(params, 'type')
  const q = search(params)
  return {
    ...(type !== undefined && { type: word('type', type, AGENT_TYPES) }),
    flags: new Set(FLAGS.filter((flag) => isSet(params, flag))),
    metricIds: texts(params, 'metric_id'),
    accreditations: texts(params, 'accreditation'),
    ...(q !== undefined && { q }),
    axes: [...new Set(params.getAll('verification_mode'))].map((axis) =>
      word('verification_mode', axis, AXES),
    ),
    verified: isSet(params, 'verified'),
  }
}

export function readListingQuery(params: URLSearchParams): ReadQuery {
  try {
    return { kind: 'query', query: read(params) }
  } catch (error) {
    if (error instanceof Bad) return { kind: 'bad', problem: error.problem }
    throw error
  }
}

/** A filter on what an agent measures was given: it implies the type. */
export function isMeasurementQuery({ metricIds, accreditations, q }: ListingQuery): boolean {
  return metricIds.length > 0 || accreditations.length > 0 || q !== undefined
}

/** A badge is asked for. */
export function isBadgeQuery({ axes, verified }: ListingQuery): boolean {
  return axes.length > 0 || verified
}

/** The types that can be in the answer; undefined: every type. Two that contradict each other leave none. */
export function typesOf(query: ListingQuery): readonly AgentType[] | undefined {
  if (!isMeasurementQuery(query)) return query.type && [query.type]
  return query.type === undefined || query.type === 'measurement' ? ['measurement'] : []
}
