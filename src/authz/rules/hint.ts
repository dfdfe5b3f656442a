/**
 * Explains the difference between the url that is called and a similar one that the provider lists. Path case and a
 * trailing slash are significant (docs/protocol.md#urls), so most real mistakes are near misses: they are explained,
 * and never granted.
 */
import type { Rules } from './rules.js'
import { hostOf } from './tables.js'

const ENDPOINT = /\/(mcp|a2a|sse)\/?$/ // what clients append to an agent's base url

type Parts = { scheme: string; authority: string; path: string; query: string }

function partsOf(url: string): Parts {
  const match = /^(https?):\/\/([^/]*)(\/[^?]*)(.*)$/.exec(url)
  const [, scheme = '', authority = '', path = '', query = ''] = match ?? []
  return { scheme, authority, path, query }
}

function withoutSlash(path: string): string {
  return path.replace(/\/$/, '')
}

/** The parts by which two paths of one host differ. */
function pathDifference(called: string, listed: string): string {
  if (withoutSlash(called) === withoutSlash(listed)) {
    return listed.endsWith('/') ? 'lists it with a trailing slash' : 'lists it without the trailing slash'
  }
  if (called.toLowerCase() === listed.toLowerCase()) return 'lists it with another letter case in the path'
  if (listed === '/') return 'lists the origin only, without the path'
  if (called === '/') return 'lists it with a path'
  if (withoutSlash(called.replace(ENDPOINT, '')) === withoutSlash(listed)) {
    return `lists it without the ${ENDPOINT.exec(called)?.[0]} suffix`
  }
  if (withoutSlash(listed.replace(ENDPOINT, '')) === withoutSlash(called)) {
    return `lists it with the ${ENDPOINT.exec(listed)?.[0]} suffix`
  }
  return 'lists another path of the same host'
}

/** A rank (smaller is nearer) and the words for that difference. */
function compare(called: Parts, listed: Parts): { rank: number; words: string } {
  const samePath = called.path === listed.path
  if (called.authority !== listed.authority) return { rank: 4, words: 'lists another port of the same host' }
  if (called.scheme !== listed.scheme)
    return { rank: samePath ? 0 : 3, words: `lists it with ${listed.scheme}` }
  if (samePath) return { rank: 0, words: 'lists it with another query' }
  const words = pathDifference(called.path, listed.path)
  return { rank: words.startsWith('lists another') ? 2 : 1, words }
}

function find({ urlsOnHost }: Rules, agentUrl: string): string | undefined {
  const host = hostOf(agentUrl)
  const listed = urlsOnHost(host)
  if (!listed) {
    const twin = host.startsWith('www.') ? host.slice(4) : `www.${host}`
    return urlsOnHost(twin) ? `the provider lists ${twin}, not ${host}` : undefined
  }
  const called = partsOf(agentUrl)
  const ranked = listed.map((url) => ({ url, ...compare(called, partsOf(url)) }))
  const nearest = ranked.reduce((best, next) => (next.rank < best.rank ? next : best))
  return `the provider ${nearest.words}: ${nearest.url}`
}

/** The nearest listed url on the agent's host and how it differs; undefined when the host is not listed at all. */
export function nearMiss(rules: Rules, agentUrl: string): string | undefined {
  if (!rules.hints.has(agentUrl)) rules.hints.set(agentUrl, find(rules, agentUrl))
  return rules.hints.get(agentUrl)
}
