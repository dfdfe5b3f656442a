/**
 * Remembers upstreams that left the roster since this process started: whoever asks about one by its id or url is told that it was
 * there, until when, and who listed it.
 */
import { LRUCache } from 'lru-cache'
import { agentUrlOf } from '../adcp/url.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'

const MAX_FORMER = 10_000

export type FormerUpstream = Pick<RosterEntry, 'id' | 'agentUrl' | 'name' | 'source'> & {
  /** When it was seen to be gone, ms. */
  leftAt: number
}

export function createFormerUpstreams() {
  const former = new LRUCache<string, FormerUpstream>({ max: MAX_FORMER }) // by canonical url
  let present: readonly RosterEntry[] = []

  return {
    /** Looks at the roster of this moment. */
    note({ entries }: Roster, now: number): void {
      if (entries === present) return
      const urls = new Set(entries.map(({ agentUrl }) => agentUrl))
      for (const { id, agentUrl, name, source } of present) {
        if (!urls.has(agentUrl)) former.set(agentUrl, { id, agentUrl, name, source, leftAt: now })
      }
      for (const url of urls) former.delete(url)
      present = entries
    },
    at: (agentUrl: string) => former.get(agentUrl),
    /** By its id, its url as somebody wrote it, or its canonical url. */
    find(ref: string): FormerUpstream | undefined {
      const agentUrl = agentUrlOf(ref)
      if (agentUrl !== undefined && former.has(agentUrl)) return former.get(agentUrl)
      return [...former.values()].find(({ id }) => id === ref)
    },
  }
}

export type FormerUpstreams = ReturnType<typeof createFormerUpstreams>
