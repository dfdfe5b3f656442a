/**
 * The query of the registry listing (specification, "Registry listing"): every parameter with its rule. The specification says
 * nothing of values beside the listed ones: there we are as liberal as the public registry (docs/protocol.md#registry), so that
 * a client of that one is a client of this one.
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

const FLAGS = ['health', 'capabilities', 'properties', 'compliance'] as const
export type Flag = (typeof FLAGS)[number]

const AXES = ['spec', 'live'] as const
type Axis = (typeof AXES)[number]

const OPERATIONS = ['build', 'preview', 'validate'] as const
/** What an agent can do with a creative. */
export type Operation = (typeof OPERATIONS)[number]

const MAX_Q = 64
const MAX_VALUES = 50 // of one repeated parameter
const MAX_VALUE = 200

export type ListingQuery = {
  /** At most one; none for a word that is no type. Undefined: every type. */
  types?: readonly AgentType[]
  flags: ReadonlySet<Flag>
  /** OR within each list; the parameters are AND'd. */
  metricIds: readonly string[]
  accreditations: readonly string[]
  q?: string
  /** All of them must be covered. */
  axes: readonly Axis[]
  verified: boolean
  operation?: Operation
}

type BadParameter = { error: string; parameter: string; valid_values?: readonly string[] }

type ReadQuery = { kind: 'query'; query: ListingQuery } | { kind: 'bad'; problem: BadParameter }

/** Reads parameters by their rules. What breaks one is noted, and reading goes on as if it had not been given. */
function createReader(params: URLSearchParams) {
  const problems: BadParameter[] = []

  function note(parameter: string, said: string, allowed?: readonly string[]): void {
    const error = `Invalid ${parameter}: ${said}`
    problems.push({ error, parameter, ...(allowed && { valid_values: allowed }) })
  }

  function one(name: string): string | undefined {
    const [value, ...more] = params.getAll(name)
    if (more.length > 0) note(name, 'it is given more than once')
    return value
  }

  const given = (name: string) => params.getAll(name).filter((value) => value !== '')

  return {
    problems,
    one,
    /** Only the literal `true` counts; every other value is as if the parameter were absent. */
    flag: (name: string) => params.getAll(name).includes('true'),
    /** Words of a closed list; the parameter may be repeated, and an empty value says nothing. */
    words<W extends string>(name: string, allowed: readonly W[]): W[] {
      const values = given(name)
      const known = allowed.filter((word) => values.includes(word))
      if (known.length < new Set(values).size) note(name, `expected ${allowed.join(', ')}`, allowed)
      return known
    },
    /** Texts; the parameter may be repeated, and an empty value says nothing. */
    texts(name: string): string[] {
      const values = [...new Set(given(name))]
      if (values.length > MAX_VALUES) note(name, `it is given more than ${MAX_VALUES} times`)
      if (values.some((value) => value.length > MAX_VALUE))
        note(name, `expected at most ${MAX_VALUE} characters`)
      return values
    },
    /** One text of at most `longest` characters. */
    text(name: string, longest: number): string | undefined {
      const value = one(name)
      if (value !== undefined && [...value].length > longest)
        note(name, `expected at most ${longest} characters`)
      return value
    },
  }
}

/** The query, or the first parameter that breaks its rule. */
export function readListingQuery(params: URLSearchParams): ReadQuery {
  const { one, flag, words, texts, text, problems } = createReader(params)
  const type = one('type')
  const q = text('q', MAX_Q)
  const [operation] = words('creative_operation', OPERATIONS)
  const query: ListingQuery = {
    ...(type && { types: AGENT_TYPES.filter((each) => each === type) }),
    flags: new Set(FLAGS.filter(flag)),
    metricIds: texts('metric_id'),
    accreditations: texts('accreditation'),
    ...(q !== undefined && { q }),
    axes: words('verification_mode', AXES),
    verified: flag('verified'),
    ...(operation && { operation }),
  }
  const [problem] = problems
  return problem ? { kind: 'bad', problem } : { kind: 'query', query }
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
  if (!isMeasurementQuery(query)) return query.types
  return query.types === undefined || query.types.includes('measurement') ? ['measurement'] : []
}
