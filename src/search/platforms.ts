/**
 * The platforms where most of a feed can be activated: those that a question may name. Upstreams name platforms as they
 * like, and a question must not be held against all of them.
 */
import type { SearchableRow } from './search-index.js'

const MOST_PLATFORMS = 1_000

/** Counts the rows that name a platform. */
export function createPlatformTally() {
  const uses = new Map<string, number>()
  return {
    add({ deployments = [] }: SearchableRow): void {
      for (const { platform } of deployments) {
        if (platform !== undefined) uses.set(platform, (uses.get(platform) ?? 0) + 1)
      }
    },
    /** The most used first. */
    commonest: (): string[] =>
      [...uses]
        .sort(([one, first], [other, second]) => second - first || (one < other ? -1 : 1))
        .slice(0, MOST_PLATFORMS)
        .map(([platform]) => platform),
  }
}
