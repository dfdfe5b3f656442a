/**
 * Upstreams name providers, and providers' files say what brief-only upstreams can be asked for: each side is told of the
 * other's news.
 */
import type { Providers } from '../authz/providers.js'
import type { Clock } from '../net/clock.js'
import type { Upstreams } from '../upstreams/upstreams.js'

export type ProviderQuestionsOptions = {
  upstreams: Upstreams
  providers: Providers
  clock: Clock
  /** Something that bears on the feed is another than before. */
  onChange(): void
}

/** Gives when each upstream was last asked again because a provider's file changed, ms. */
export function connectProviders(options: ProviderQuestionsOptions): ReadonlyMap<string, number> {
  const { upstreams, providers, clock, onChange } = options
  const askedAgain = new Map<string, number>()
  upstreams.onChange(() => {
    providers.want(upstreams.providerDomains())
    onChange()
  })
  providers.onChange(() => {
    for (const { id, mode, problem } of upstreams.statuses()) {
      if (mode !== 'enumerated' && problem?.reason !== 'not_enumerable') continue
      askedAgain.set(id, clock.now())
      upstreams.refreshSoon(id)
    }
    onChange()
  })
  return askedAgain
}
