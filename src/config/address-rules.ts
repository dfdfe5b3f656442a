/**
 * Rules on where things are, and on who is there: urls, domains and networks that can never match, or of which a part would
 * silently be ignored; registries and upstreams that would be called twice, or never, or with a credential that cannot be
 * sent.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { canonicalUrl, configuredAgentUrl, holdsCredential, originAt } from '../adcp/url.js'
import type { AuthEntry, ConfigFile, ConfigPath, Rule } from './schema.js'
import { shownName } from './shown-value.js'

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/ // RFC 9110, "token"
export const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
/** The HTTP client sets these itself. */
const RESERVED = new Set(['connection', 'content-length', 'host', 'keep-alive', 'te', 'transfer-encoding'])

/** A name as urls carry it: lower case, A-labels, no trailing dot; undefined when it is no host name. */
function hostName(name: string): string | undefined {
  if (!/^[^\s/?#@:]+$/.test(name) || !URL.canParse(`http://${name}/`)) return undefined
  return new URL(`http://${name}/`).hostname.replace(/\.$/, '')
}

function* domainRule(name: string, at: ConfigPath): Rule {
  const host = hostName(name)
  if (host === name) return
  const expected = host ? `${host}, as the name stands in urls` : 'a domain name'
  yield { at, expected, got: shownName(name) }
}

/** A url that paths are added to: what stands behind the path would be lost, or end up in the middle. */
export function* baseUrlRule(text: string | undefined, at: ConfigPath): Rule {
  if (text === undefined) return
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url) yield { at, expected: 'an http or https url' }
  else if (url.search || url.hash || url.username || url.password) {
    yield { at, expected: 'a url without credentials, query and fragment' }
  }
}

/** A url that is called as it stands: what is never sent of it would be lost in silence. */
export function* calledUrlRule(text: string | undefined, at: ConfigPath): Rule {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined
  if (url && (url.username || url.password || url.hash)) {
    yield { at, expected: 'a url without user, password and fragment, which are not sent' }
  }
}

function* originRule(text: string, at: ConfigPath): Rule {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.pathname !== '/' || url.search || url.hash || url.username || url.password) {
    yield { at, expected: 'an origin such as http://127.0.0.1:4900, without a path' }
  }
}

function* networkRules(networks: readonly string[] = [], at: ConfigPath): Rule {
  for (const [index, network] of networks.entries()) {
    if (!ipaddr.isValidCIDR(network)) {
      yield { at: [...at, index], expected: 'a network such as 127.0.0.0/8' }
    }
  }
}

export function* listenRules({ listen }: ConfigFile): Rule {
  yield* baseUrlRule(listen?.public_url, ['listen', 'public_url'])
  const { host } = listen ?? {}
  if (host !== undefined && isIP(host) === 0 && hostName(host) === undefined) {
    yield { at: ['listen', 'host'], expected: 'a host name or an address, without a port' }
  } else if (host !== undefined && !URL.canParse(originAt(host, 0))) {
    yield { at: ['listen', 'host'], expected: 'an address without a zone, which no url has' }
  }
  yield* networkRules(listen?.trusted_proxies, ['listen', 'trusted_proxies'])
}

export function* egressRules({ egress }: ConfigFile): Rule {
  yield* networkRules(egress?.allow_networks, ['egress', 'allow_networks'])
  yield* networkRules(egress?.webhook_networks, ['egress', 'webhook_networks'])
  for (const [domain, origin] of Object.entries(egress?.hosts ?? {})) {
    yield* domainRule(domain, ['egress', 'hosts', domain])
    yield* originRule(origin, ['egress', 'hosts', domain])
  }
}

export function* providerRules({ authorization }: ConfigFile): Rule {
  for (const [domain, { confirm_pointer: pointer }] of Object.entries(authorization?.providers ?? {})) {
    const at: ConfigPath = ['authorization', 'providers', domain]
    yield* domainRule(domain, at)
    if (pointer !== undefined && !canonicalUrl(pointer)?.startsWith('https:')) {
      yield { at: [...at, 'confirm_pointer'], expected: 'an https url' }
    }
  }
}

function* headerNameRule(name: string, at: ConfigPath): Rule {
  if (!HEADER_NAME.test(name)) yield { at, expected: 'a header name', got: 'another name' }
  else if (RESERVED.has(name.toLowerCase())) {
    yield {
      at,
      expected: 'a header that is not of the connection itself',
      got: JSON.stringify(name.toLowerCase()),
    }
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
    const agentUrl = configuredAgentUrl(upstream.url)
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
  const included = new Set(include?.urls?.map(canonicalUrl))
  for (const [index, url] of (exclude?.urls ?? []).entries()) {
    if (!included.has(canonicalUrl(url))) continue
    yield {
      at: ['discovery', 'exclude', 'urls', index],
      expected: 'a url that discovery.include does not name',
    }
  }
  for (const side of ['include', 'exclude'] as const) {
    for (const [index, url] of (discovery?.[side]?.urls ?? []).entries()) {
      const agentUrl = canonicalUrl(url)
      if (agentUrl !== undefined && !holdsCredential(agentUrl)) continue
      yield {
        at: ['discovery', side, 'urls', index],
        expected: "an agent's url, without what looks like a credential in its query",
      }
    }
  }
}
