/**
 * A provider's tables as questions and answers. Opening them costs the same for any document; what verdicts need more
 * than once is cached. Path case and a trailing slash are significant (docs/protocol.md#urls), so most real mistakes are
 * near misses: they are explained, and never granted.
 */
import { findName, type Lists, nameAt, nameCount } from '../../process/shared-memory.js'
import { type Diagnostic, type GrantLimits, hostOf, type RuleTables, unpackedCountry } from './tables.js'

/** The verdict that grants: the entries that do, and the countries where they hold, unless everywhere. */
export type Authorized = {
  outcome: 'authorized'
  entries: readonly number[]
  countries?: readonly string[]
}

export type Grant = GrantLimits & {
  /** Its index in `authorized_agents[]`. */
  readonly entry: number
  /** The verdict when this is the only grant that applies. */
  readonly verdict: Authorized
}

/** One name that entries grant to one agent. */
type NamedGrants = {
  readonly agent: string
  readonly by: 'signal_ids' | 'signal_tags'
  readonly name: string
  readonly grants: readonly Grant[]
}

export type PublishedSignal = {
  readonly id: string
  /** The tags that grants may use for this id: those on every definition of it. */
  readonly tags: readonly string[]
  /** The first definition of this id, unvalidated. */
  readonly row: Readonly<Record<string, unknown>>
  /** Its index in `signals[]`. */
  readonly index: number
}

export type Rules = ReturnType<typeof openRules>

const ENDPOINT = /\/(mcp|a2a|sse)\/?$/ // what clients append to an agent's base url
const NONE: readonly Grant[] = []
const BY_ID = 0
const BY_TAG = 1
const decoder = new TextDecoder()

/** The index of `item` in `items`, which is ascending from `from` up to (excluding) `to`; -1 when absent. */
function place(items: Uint32Array, from: number, to: number, item: number): number {
  let low = from
  let high = to
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((items[middle] as number) < item) low = middle + 1
    else high = middle
  }
  return low < to && items[low] === item ? low : -1
}

function listOf({ starts, items }: Lists, number: number): Uint32Array {
  return items.subarray(starts[number], starts[number + 1])
}

type Parts = { scheme: string; authority: string; path: string }

function partsOf(url: string): Parts {
  const match = /^(https?):\/\/([^/]*)(\/[^?]*)/.exec(url)
  const [, scheme = '', authority = '', path = ''] = match ?? []
  return { scheme, authority, path }
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
function urlDifference(called: Parts, listed: Parts): { rank: number; words: string } {
  const samePath = called.path === listed.path
  if (called.authority !== listed.authority) return { rank: 4, words: 'lists another port of the same host' }
  if (called.scheme !== listed.scheme)
    return { rank: samePath ? 0 : 3, words: `lists it with ${listed.scheme}` }
  if (samePath) return { rank: 0, words: 'lists it with another query' }
  const words = pathDifference(called.path, listed.path)
  return { rank: words.startsWith('lists another') ? 2 : 1, words }
}

/** The questions that can be asked of a document. Nothing is copied: `tables` are read where they are. */
export function openRules({ bytes, tables }: { bytes: Uint8Array; tables: RuleTables }) {
  const { names, signals, agents, granted, behind, grants, hosts, neighbours, boundaries } = tables
  /** One per upstream at most. */
  const askedAgents = new Map<string, number>()
  /** Near misses found so far, by agent url: one per upstream at most. */
  const hints = new Map<string, string | undefined>()
  /** Lists of a single grant, cached, because one entry grants nearly every signal. */
  const alone: (readonly [Grant])[] = []

  function grantAt(number: number): readonly [Grant] {
    const known = alone[number]
    if (known) return known
    const entry = grants.entry[number] as number
    const packed = listOf(grants.countries, number)
    const countries = packed.length > 0 ? [...packed].map(unpackedCountry) : undefined
    const limits = { ...(countries && { countries }) }
    const made: readonly [Grant] = [
      {
        ...{ entry, from: grants.from[number] as number, until: grants.until[number] as number },
        ...limits,
        verdict: { outcome: 'authorized', entries: [entry], ...limits },
      },
    ]
    alone[number] = made
    return made
  }

  function grantsBehind(item: number): readonly Grant[] {
    const from = behind.starts[item] as number
    const to = behind.starts[item + 1] as number
    if (to - from === 1) return grantAt(behind.items[from] as number)
    return [...behind.items.subarray(from, to)].map((number) => grantAt(number)[0])
  }

  function granting(agent: number, kind: typeof BY_ID | typeof BY_TAG, name: number): readonly Grant[] {
    const row = 2 * agent + kind
    const item = place(granted.items, granted.starts[row] as number, granted.starts[row + 1] as number, name)
    return item < 0 ? NONE : grantsBehind(item)
  }

  /** Listed urls on one host (without scheme and port); undefined when there are none. */
  function urlsOnHost(host: string): string[] | undefined {
    const number = findName(hosts, host)
    return number < 0 ? undefined : [...listOf(neighbours, number)].map((agent) => nameAt(agents, agent))
  }

  function findNearMiss(agentUrl: string): string | undefined {
    const host = hostOf(agentUrl)
    const listed = urlsOnHost(host)
    if (!listed) {
      const twin = host.startsWith('www.') ? host.slice(4) : `www.${host}`
      return urlsOnHost(twin) ? `the provider lists ${twin}, not ${host}` : undefined
    }
    const called = partsOf(agentUrl)
    const ranked = listed.map((url) => ({ url, ...urlDifference(called, partsOf(url)) }))
    const nearest = ranked.reduce((best, next) => (next.rank < best.rank ? next : best))
    return `the provider ${nearest.words}: ${nearest.url}`
  }

  return {
    diagnostics: tables.diagnostics as readonly Diagnostic[],
    moreDiagnostics: tables.moreDiagnostics,
    signalCount: signals.name.length,

    /** The number of the signal with this id; -1 when the provider publishes none. */
    signalNumber(id: string): number {
      const name = findName(names, id)
      return name < 0 ? -1 : (tables.signalOf[name] as number) - 1
    },
    /** The number of an agent (canonical url); -1 when it is not listed. */
    agentNumber(url: string): number {
      const known = askedAgents.get(url)
      if (known !== undefined) return known
      const number = findName(agents, url)
      askedAgents.set(url, number)
      return number
    },
    /** Whether some entry for the agent grants signals. */
    speaksOfSignals: (agent: number) => granted.starts[2 * agent] !== granted.starts[2 * agent + 2],
    /** The agent's grants that name the signal, each once, those by id first. Time windows are not considered. */
    grants(agent: number, signal: number): readonly Grant[] {
      let found = granting(agent, BY_ID, signals.name[signal] as number)
      const { starts, items } = signals.tags
      for (let at = starts[signal] as number; at < (starts[signal + 1] as number); at += 1) {
        const byTag = granting(agent, BY_TAG, items[at] as number)
        if (byTag.length === 0) continue
        // One list grants nearly every signal: only a second one makes a copy necessary.
        found = found.length === 0 ? byTag : [...new Set([...found, ...byTag])]
      }
      return found
    },
    /** The grant from the entry with this index in `authorized_agents[]`. */
    grantOfEntry(entry: number): Grant | undefined {
      const number = place(grants.entry, 0, grants.entry.length, entry)
      return number < 0 ? undefined : grantAt(number)[0]
    },
    /** The signal published under this number, with its definition parsed. */
    signal(number: number): PublishedSignal {
      const text = decoder.decode(bytes.subarray(signals.begin[number], signals.end[number]))
      return {
        id: nameAt(names, signals.name[number] as number),
        tags: [...listOf(signals.tags, number)].map((name) => nameAt(names, name)),
        row: JSON.parse(text) as PublishedSignal['row'],
        index: signals.index[number] as number,
      }
    },
    signalId: (number: number) => nameAt(names, signals.name[number] as number),
    /** The canonical urls of all agents that are listed. */
    agentUrls: () => Array.from({ length: nameCount(agents) }, (_, number) => nameAt(agents, number)),
    /** The nearest listed url on the agent's host and how it differs; undefined when the host is not listed at all. */
    nearMiss(agentUrl: string): string | undefined {
      if (!hints.has(agentUrl)) hints.set(agentUrl, findNearMiss(agentUrl))
      return hints.get(agentUrl)
    },
    /** Every name that is granted to some agent. */
    *namedGrants(): Generator<NamedGrants> {
      for (let row = 0; row + 1 < granted.starts.length; row += 1) {
        const agent = nameAt(agents, row >> 1)
        const by = row % 2 === BY_ID ? 'signal_ids' : 'signal_tags'
        for (
          let item = granted.starts[row] as number;
          item < (granted.starts[row + 1] as number);
          item += 1
        ) {
          yield { agent, by, name: nameAt(names, granted.items[item] as number), grants: grantsBehind(item) }
        }
      }
    },
    /** The next instant after `nowMs` at which a window opens or closes; undefined when there is none. */
    nextBoundary: (nowMs: number) => boundaries.find((boundary) => boundary > nowMs),
    /** How many windows have opened or closed by `nowMs`. */
    boundariesPassed: (nowMs: number) => boundaries.findLastIndex((boundary) => boundary <= nowMs),
  }
}
