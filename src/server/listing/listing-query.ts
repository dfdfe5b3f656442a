/**
 * The query of the registry listing (specification, "Registry listing"). Of parameter values beside the listed ones the
 * specification says nothing: there we are as liberal as the public registry (docs/protocol.md#registry), so that a client of that
 * one is a client of this one.
 */
import { AGENT_TYPES, type AgentType, OPERATIONS, type Operation } from '../../upstreams/rows/directory.js'

const FLAGS = ['health', 'capabilities', 'properties', 'compliance'] as const
export type Flag = (typeof FLAGS)[number]

const AXES = ['spec', 'live'] as const
type Axis = (typeof AXES)[number]

const MAX_TEXT = 64 // characters
const MAX_TEXTS = 50 // of one repeated parameter
const MAX_REPEATED_TEXT = 200 // characters

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

/** Reads parameters by their rules. What breaks one is noted, and reading goes on as if it had not been given. */
function createReader(params: URLSearchParams) {
  const problems: BadParameter[] = []

  function note(parameter: string, said: string, allowed?: readonly string[]): void {
    const error = `Invalid ${parameter}: ${said}`
    problems.push({ error, parameter, ...(allowed && { valid_values: allowed }) })
  }

  /** An empty value says nothing, whatever the parameter. */
  const given = (name: string) => params.getAll(name).filter((value) => value !== '')

  function one(name: string): string | undefined {
    const [value, ...more] = given(name)
    if (more.length > 0) note(name, 'it is given more than once')
    return value
  }

  return {
    problems,
    one,
    /** Only the literal `true` counts; every other value is as if the parameter were absent. */
    flag: (name: string) => params.getAll(name).includes('true'),
    /** Words of a closed list; the parameter may be repeated. */
    words<W extends string>(name: string, allowed: readonly W[]): W[] {
      const values = given(name)
      const known = allowed.filter((word) => values.includes(word))
      if (known.length < new Set(values).size) note(name, `expected ${allowed.join(', ')}`, allowed)
      return known
    },
    /** Texts; the parameter may be repeated. */
    texts(name: string): string[] {
      const values = [...new Set(given(name))]
      if (values.length > MAX_TEXTS) note(name, `it is given more than ${MAX_TEXTS} times`)
      if (values.some((value) => value.length > MAX_REPEATED_TEXT))
        note(name, `expected at most ${MAX_REPEATED_TEXT} characters`)
      return values
    },
    /** One text. */
    text(name: string): string | undefined {
      const value = one(name)
      if (value !== undefined && [...value].length > MAX_TEXT)
        note(name, `expected at most ${MAX_TEXT} characters`)
      return value
    },
  }
}

/** The query, or the first parameter that breaks its rule. */
export function readListingQuery(params: URLSearchParams): ListingQuery | BadParameter {
  const { one, flag, words, texts, text, problems } = createReader(params)
  const type = one('type')
  const q = text('q')
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
  return problem ?? query
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
