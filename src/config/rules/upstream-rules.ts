/** Rules on registries and upstreams: who would be called twice, or never. */
import { agentUrlOf, canonicalUrl } from '../../adcp/url.js'
import type { ConfigFile } from '../schema.js'
import { authRules, headerNameRule, headerValueRule } from './auth-rules.js'
import type { ConfigPath, Rule } from './broken.js'
import { baseUrlRule, calledUrlRule } from './place-rules.js'

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
