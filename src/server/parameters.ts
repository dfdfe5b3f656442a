/**
 * Parameters of a request that its path does not have, or not so often: what is mistyped must not be answered as if nothing had been
 * said.
 */
import { didYouMean, nearest } from '../adcp/issue-words.js'

export type BadParameter = { error: string; parameter: string }

/** A parameter that a path has. `many`: it may be repeated. `oneOf`: the words that it takes; an empty text says nothing. */
export type Parameter = { name: string; many?: boolean; oneOf?: readonly string[] }

type Query = { kind: 'query'; params: URLSearchParams } | { kind: 'bad'; problem: BadParameter }

/** The parameters of a request, when each is one of these and is given as it may be; or the first that is not, for status 400. */
export function readQuery({ url }: { url: string }, known: readonly Parameter[]): Query {
  const params = new URL(url, 'http://localhost').searchParams
  const bad = (parameter: string, said: string): Query => ({
    kind: 'bad',
    problem: { error: `Invalid ${parameter}: ${said}`, parameter },
  })
  const given = new Set<string>()
  for (const [name, value] of params) {
    const one = known.find((each) => each.name === name)
    if (!one) {
      const names = known.map((each) => each.name)
      const all = names.length > 0 ? `It has ${names.join(', ')}` : 'It has none'
      return bad(name, `this path has no such parameter. ${didYouMean(nearest(name, names)) || all}`)
    }
    if (given.has(name) && !one.many) return bad(name, 'it is given more than once')
    if (value !== '' && one.oneOf?.includes(value) === false) {
      return bad(name, `expected one of ${one.oneOf.join(', ')}`)
    }
    given.add(name)
  }
  return { kind: 'query', params }
}
