/** The query of a request: what is mistyped there must not be answered as if nothing had been said. */
import { didYouMean, nearest } from '../../adcp/issue-words.js'

export type BadParameter = { error: string; parameter: string }

type Query = { kind: 'query'; params: URLSearchParams } | { kind: 'bad'; problem: BadParameter }

/** The parameters of a request whose route knows these names; or, for status 400, the first that is none of them. */
export function readQuery({ url }: { url: string }, names: readonly string[]): Query {
  const params = new URL(url, 'http://localhost').searchParams
  const parameter = [...params.keys()].find((name) => !names.includes(name))
  if (parameter === undefined) return { kind: 'query', params }
  const known = names.length > 0 ? `It has ${names.join(', ')}` : 'It has none'
  const meant = didYouMean(nearest(parameter, names)) || known
  return {
    kind: 'bad',
    problem: { error: `Invalid ${parameter}: this path has no such parameter. ${meant}`, parameter },
  }
}
