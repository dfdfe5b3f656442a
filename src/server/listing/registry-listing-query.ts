/**
 * The query of the registry listing (specification, "Registry listing"): every parameter with its rule. A parameter
 * we do not know is ignored, as the real registry does with paging (docs/protocol.md#registry); a bad value is a 400
 * that says what is allowed.
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

const TRUE = ['true'] as const
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

  function words<W extends string>(name: string, values: readonly string[], allowed: readonly W[]): W[] {
    const known = allowed.filter((word) => values.includes(word))
    if (known.length < new Set(values).size) note(name, `expected ${allowed.join(', ')}`, allowed)
    return known
  }

  return {
    problems,
    /** A word of a closed list. */
    word<W extends string>(name: string, allowed: readonly W[]): W | undefined {
      const value = one(name)
      return value === undefined ? undefined : words(name, [value], allowed)[0]
    },
    /** Words of a closed list; the parameter may be repeated. */
    words: <W extends string>(name: string, allowed: readonly W[]) =>
      words(name, params.getAll(name), allowed),
    /** Texts; the parameter may be repeated. */
    texts(name: string): string[] {
      const values = [...new Set(params.getAll(name))]
      if (values.length > MAX_VALUES) note(name, `it is given more than ${MAX_VALUES} times`)
      if (values.some((value) => value === '' || value.length > MAX_VALUE)) {
        note(name, `expected 1 to ${MAX_VALUE} characters`)
      }
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
  const { word, words, texts, text, problems } = createReader(params)
  const type = word('type', AGENT_TYPES)
  const q = text('q', MAX_Q)
  const query: ListingQuery = {
    ...(type !== undefined && { type }),
    flags: new Set(FLAGS.filter((flag) => word(flag, TRUE))),
    metricIds: texts('metric_id'),
    accreditations: texts('accreditation'),
    ...(q !== undefined && { q }),
    axes: words('verification_mode', AXES),
    verified: word('verified', TRUE) !== undefined,
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
  if (!isMeasurementQuery(query)) return query.type && [query.type]
  return query.type === undefined || query.type === 'measurement' ? ['measurement'] : []
}
