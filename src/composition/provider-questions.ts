/**
 * Upstreams name providers, and providers' files say what brief-only upstreams can be asked for: each side is told of
 * the other's news.
 */
import type { SignalRef } from '../adcp/reference.js'
import type { Providers } from '../authz/provider/providers.js'
import type { UpstreamStatus } from '../upstreams/status.js'
import type { Upstreams } from '../upstreams/upstreams.js'

export type ProviderQuestionsOptions = {
  /** What an agent (canonical url) may sell by the files that are held now. */
  references(agentUrl: string): readonly SignalRef[]
  /** What providers call these signals. */
  names(agentUrl: string): readonly string[]
}

/**
 * Or may, for all that is known: its first answer is still on the way. One that is in trouble is asked again when its time
 * comes: others' files do not call it sooner.
 */
function livesByQuestions({ mode, problem }: UpstreamStatus): boolean {
  if (problem && problem.reason !== 'not_enumerable') return false
  return mode === undefined || mode === 'enumerated'
}

export function createProviderQuestions({ references, names }: ProviderQuestionsOptions) {
  let restore = () => {}
  const restored = new Promise<void>((resolve) => {
    restore = resolve
  })

  return {
    /** For the upstreams. Not before the saved files are back: a part of them would make an enumerated slice shrink. */
    async referencesFor(agentUrl: string): Promise<readonly SignalRef[]> {
      await restored
      return references(agentUrl)
    },
    async namesFor(agentUrl: string): Promise<readonly string[]> {
      await restored
      return names(agentUrl)
    },
    /** Tells each side of the other's news from now on, and `moved` of all that bears on the feed. */
    connect(upstreams: Upstreams, providers: Providers, moved: () => void): void {
      upstreams.onChange(moved)
      providers.onChange(() => {
        for (const { id } of upstreams.statuses().filter(livesByQuestions)) upstreams.refreshNow(id)
        moved()
      })
    },
    /** The saved slices are back: once the providers that they name are too, questions are answered. */
    async open(upstreams: Upstreams, providers: Providers): Promise<void> {
      providers.want(upstreams.providerDomains())
      await providers.readOnce()
      restore()
    },
    /** Whoever still waits for an answer goes on without. */
    close: () => restore(),
  }
}
