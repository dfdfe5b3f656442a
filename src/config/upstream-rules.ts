/** Rules on registries and upstreams: who would be called twice, or never. */
import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import { baseUrlRule, calledUrlRule } from './place-rules.js'
import type { ConfigPath, Rule } from './problem.js'
import type { AuthEntry, ConfigFile } from './schema.js'

/** Rules on what is sent as a credential. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/ // RFC 9110, "token"
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
/** The HTTP client sets these itself. */
const RESERVED = new Set(['connection', 'content-length', 'host', 'keep-alive', 'te', 'transfer-encoding'])

function* headerNameRule(name: string, at: ConfigPath): Rule {
  if (!HEADER_NAME.test(name)) yield { at, expected: 'a header name', got: JSON.stringify(name) }
  else if (RESERVED.has(name.toLowerCase())) {
    yield { at, expected: 'a header that is not of the connection itself', got: JSON.stringify(name) }
  }
}

function* headerValueRule(value: string, at: ConfigPath): Rule {
  if (!HEADER_VALUE.test(value)) yield { at, expected: 'a text that can stand in a header' }
}

/** The members that a type takes, and no other: a token with `type: none` would never be sent. */
const MEMBERS: Record<AuthEntry['type'], readonly (keyof AuthEntry)[]> = {
  none: [],
  bearer: ['token'],
  header: ['name', 'value'],
}

export function* authRules(entry: AuthEntry | undefined, at: ConfigPath): Rule {
  if (!entry) return
  const taken = MEMBERS[entry.type]
  for (const member of taken) {
    if (!entry[member]) yield { at: [...at, member], expected: `a ${member}, as type is ${entry.type}` }
  }
  for (const member of ['token', 'name', 'value'] as const) {
    if (entry[member] === undefined || taken.includes(member)) continue
    yield { at: [...at, member], expected: `no ${member}, as type is ${entry.type}` }
  }
  if (entry.type === 'header' && entry.name) yield* headerNameRule(entry.name, [...at, 'name'])
  if (entry.type === 'header' && entry.value) yield* headerValueRule(entry.value, [...at, 'value'])
  if (entry.type === 'bearer' && entry.token && !HEADER_VALUE.test(entry.token)) {
    yield { at: [...at, 'token'], expected: 'a token that can stand in a header' }
  }
}

export function* registryRules({ registries = [] }: ConfigFile): Rule {
  const urls = new Set<string>()
  for (const [index, { url, headers = {} }] of registries.entries()) {
    const at: ConfigPath = ['registries', index]
    yield* baseUrlRule(url, [...at, 'url'])
    const canonical = canonicalUrl(url.replace(/\/$/, ''))
    if (canonical && urls.has(canonical)) {
      yield { at: [...at, 'url'], expected: 'a url that no other registry has' }
    }
    if (canonical) urls.add(canonical)
    for (const [name, value] of Object.entries(headers)) {
      yield* headerNameRule(name, [...at, 'headers', name])
      yield* headerValueRule(value, [...at, 'headers', name])
    }
  }
}

export function* upstreamRules({ upstreams = [], discovery }: ConfigFile): Rule {
  const ids = new Set<string>()
  const urls = new Map<string, number>()
  for (const [index, upstream] of upstreams.entries()) {
    const at: ConfigPath = ['upstreams', index]
    if (upstream.id && ids.has(upstream.id)) {
      yield { at: [...at, 'id'], expected: 'an id that no other upstream has' }
    }
    if (upstream.id) ids.add(upstream.id)
    const agentUrl = agentUrlOf(upstream.url)
    const other = agentUrl === undefined ? undefined : urls.get(agentUrl)
    if (agentUrl === undefined) yield { at: [...at, 'url'], expected: "an agent's url" }
    else if (other !== undefined) {
      yield { at: [...at, 'url'], expected: `a url that is not the one of upstreams[${other}]` }
    } else urls.set(agentUrl, index)
    yield* calledUrlRule(upstream.url, [...at, 'url'])
    for (const [place, seed] of (upstream.seeds ?? []).entries()) {
      if (seed.trim() === '') yield { at: [...at, 'seeds', place], expected: 'a question' }
    }
    yield* authRules(upstream.auth, [...at, 'auth'])
  }
  const { include, exclude } = discovery ?? {}
  if (include && !include.urls?.length && !include.members?.length) {
    yield { at: ['discovery', 'include'], expected: 'urls or members, as nobody is included otherwise' }
  }
  const included = new Set(include?.urls?.map(agentUrlOf))
  for (const [index, url] of (exclude?.urls ?? []).entries()) {
    if (!included.has(agentUrlOf(url))) continue
    yield {
      at: ['discovery', 'exclude', 'urls', index],
      expected: 'a url that discovery.include does not name',
    }
  }
  for (const side of ['include', 'exclude'] as const) {
    for (const [index, url] of (discovery?.[side]?.urls ?? []).entries()) {
      if (!canonicalUrl(url)) {
        yield { at: ['discovery', side, 'urls', index], expected: "an agent's url" }
      }
    }
  }
}
