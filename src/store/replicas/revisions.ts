/**
 * Which configuration each live process runs: one that a change did not reach serves another feed than its neighbours,
 * and that has to be seen from any of them.
 */
import type { Clock } from '../../net/clock.js'
import type { Sharing } from '../../upstreams/rows/sharing.js'

const PREFIX = 'configuration/'
const GONE_MS = 60 * 60 * 1_000 // a process tells its revision before others have seen that it lives
const AGAIN_MS = 24 * 60 * 60 * 1_000 // what is told is forgotten after a week (notes.ts)

type RevisionsOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear'>
  clock: Clock
  /** Names this process, and all that live. */
  self: string
  members(): readonly string[]
  /** Of the configuration that this process runs now. */
  revision(): string
}

export function createRevisions({ sharing, clock, self, members, revision }: RevisionsOptions) {
  const told = new Map<string, { revision: string; heardAt: number }>()
  let cancel = () => {}
  sharing.hear(PREFIX, (name, value) => {
    if (typeof value !== 'string') return
    told.set(name.slice(PREFIX.length), { revision: value, heardAt: clock.now() })
    for (const [member, { heardAt }] of told) {
      if (heardAt + GONE_MS < clock.now() && !members().includes(member)) told.delete(member)
    }
  })

  /** To be called whenever this process runs another configuration. */
  function tell(): void {
    cancel()
    cancel = clock.after(AGAIN_MS, tell)
    void sharing.tell(`${PREFIX}${self}`, revision())
  }

  return {
    tell,
    /** How many live processes run each revision. One that has not said yet which it runs is not counted. */
    live(): Record<string, number> {
      const counts: Record<string, number> = {}
      for (const member of members()) {
        const its = member === self ? revision() : told.get(member)?.revision
        if (its !== undefined) counts[its] = (counts[its] ?? 0) + 1
      }
      return counts
    },
    close: () => cancel(),
  }
}
