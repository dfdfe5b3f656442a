/** The snapshots that cursors name: those that this process gave, and what the others on the same storage say of theirs. */
import { randomUUID } from 'node:crypto'
import type { Sharing } from '../../upstreams/rows/sharing.js'

const MOST = 500 // snapshots of one process
const MOST_PROCESSES = 100 // those that were heard last

/** `prefix`: of the notes in which processes tell each other. */
export function createWalks(sharing: Pick<Sharing, 'tell' | 'hear'>, prefix: string) {
  const name = `${prefix}${randomUUID()}`
  const own = new Set<string>()
  const others = new Map<string, ReadonlySet<string>>()
  let untold = false
  let isTelling = false
  sharing.hear(prefix, (from, value) => {
    others.delete(from)
    others.set(from, new Set(value as string[]))
    const [first] = others.keys()
    if (others.size > MOST_PROCESSES && first !== undefined) others.delete(first)
  })

  async function told(): Promise<void> {
    isTelling = true
    let failed = false
    while (untold && !failed) {
      untold = false
      failed = !(await sharing.tell(name, [...own]))
    }
    untold ||= failed
    isTelling = false
  }

  /** Tells the others what they were not told yet. */
  function tell(): void {
    if (untold && !isTelling) void told()
  }

  return {
    tell,
    /** A cursor into the snapshot is given. */
    note(id: string): void {
      if (own.has(id)) return
      own.add(id)
      const [first] = own
      if (own.size > MOST && first !== undefined) own.delete(first)
      untold = true
      tell()
    },
    has: (id: string): boolean => own.has(id) || [...others.values()].some((ids) => ids.has(id)),
  }
}
