/**
 * Upstreams name providers, and providers' files say what brief-only upstreams can be asked for: each side hears of the
 * other's changes.
 */
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef } from '../../adcp/reference.js'
import { providerDomain, registrableDomain } from '../../authz/provider/domain.js'
import type { ProviderListener, Providers } from '../../authz/provider/providers.js'
import { type Granted, lists, MOST_NAMES, MOST_REFERENCES } from '../../authz/rules/references.js'
import type { ProviderState } from '../../authz/rules/state.js'
import { fairShares } from '../../memory/fair-budget.js'
import type { Upstreams } from '../../upstreams/upstreams.js'

const GATHERED = 4 // collected as a multiple of what is asked for, until it is known how many belong to each provider

/** Items of many providers by who registered them, no more of them than may be needed. */
function createGathering<T>(most: number) {
  let parts = new Map<string, readonly T[]>()
  let count = 0

  function cut(): T[][] {
    const shares = fairShares([...parts.values()], most)
    parts = new Map([...parts.keys()].map((name, at) => [name, shares[at] as T[]]))
    count = shares.reduce((sum, { length }) => sum + length, 0)
    return shares
  }

  return {
    add(domain: string, items: readonly T[]): void {
      if (items.length === 0) return
      const name = registrableDomain(domain)
      parts.set(name, [...(parts.get(name) ?? []), ...items])
      count += items.length
      if (count > GATHERED * most) cut()
    },
    finish: (): T[] => cut().flat(),
  }
}

function referencesOf({ domain }: ProviderState, { ids }: Granted): SignalRef[] {
  return ids.map((id) => ({ scope: 'data_provider', data_provider_domain: domain, signal_id: id }))
}

export function createProviderQuestions(providers: Providers) {
  let open = () => {}
  let isOpen = false
  const opened = new Promise<void>((resolve) => {
    open = () => {
      isOpen = true
      resolve()
    }
  })
  let named: Upstreams['providerDomains'] = () => new Map()

  /**
   * First of the providers that the agent names itself, then of all others, each with an equal share: a stranger's file
   * with many grants takes no question from the agent's own signals. It waits for the saved files: with a part of them
   * an enumerated slice would shrink.
   */
  async function gather<T>(
    agentUrl: string,
    most: number,
    items: (state: ProviderState, granted: Granted) => readonly T[],
  ): Promise<T[]> {
    await opened
    const own = new Set(
      named()
        .get(agentUrl)
        ?.map((domain) => providerDomain(domain) ?? domain),
    )
    const listing = providers
      .states()
      .filter((state) => lists(state, agentUrl))
      .sort((a, b) => (a.domain < b.domain ? -1 : 1))
    const found: T[] = []
    for (const isOwn of [true, false]) {
      const gathering = createGathering<T>(most - found.length)
      for (const state of listing) {
        if (own.has(state.domain) !== isOwn || found.length === most) continue
        gathering.add(state.domain, items(state, await providers.grantedTo(state, agentUrl)))
      }
      found.push(...gathering.finish())
    }
    return found
  }

  /** Tells the upstreams whose questions have changed. Upstreams that still wait for an answer get the new file's. */
  function tellOf(upstreams: Upstreams): ProviderListener {
    return (before, after) => {
      if (!isOpen || before.document?.digest === after.document?.digest) return
      upstreams.questionsMoved(
        (agentUrl) => lists(before, agentUrl) || lists(after, agentUrl),
        async (agentUrl) =>
          !isDeepStrictEqual(
            await providers.grantedTo(before, agentUrl),
            await providers.grantedTo(after, agentUrl),
          ),
      )
    }
  }

  return {
    /** For the upstreams: what an agent (canonical url) may sell by the files that are held now. */
    referencesFor: (agentUrl: string): Promise<SignalRef[]> =>
      gather(agentUrl, MOST_REFERENCES, referencesOf),
    /** What providers call these signals, each name once. */
    async namesFor(agentUrl: string): Promise<string[]> {
      return [...new Set(await gather(agentUrl, MOST_NAMES, (_, { names }) => names))]
    },
    /** Tells each side of the other's news from now on, and `moved` of all that bears on the feed. */
    connect(upstreams: Upstreams, moved: () => void): void {
      named = upstreams.providerDomains
      upstreams.onChange(moved)
      providers.onChange(tellOf(upstreams))
      providers.onChange(moved)
    },
    /** The saved slices are back: once the providers that they name are too, questions are answered. */
    async open(upstreams: Upstreams): Promise<void> {
      providers.want(upstreams.providerDomains())
      await providers.readOnce()
      open()
    },
    /** Those that still wait for an answer continue without it. */
    close: () => open(),
  }
}
