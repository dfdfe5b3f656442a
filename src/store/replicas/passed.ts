/** Work that a member could not do and left to the others. */
import type { Clock } from '../../net/clock.js'
import type { Sharing } from '../../upstreams/rows/storage.js'

/**
 * After this the member that left work may have it again: long enough that a lasting trouble costs little, short enough that work is
 * spread evenly again.
 */
const PASSED_MS = 10 * 60_000
const PASSED = 'passed/' // names of notes

type PassedOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear'>
  clock: Clock
  self: string
  members(): readonly string[]
  /** Called when work has been left to others; resolves when this member has released what is no longer its own. */
  onPassed(): Promise<void>
}

/**
 * Work that a member could not do and left to the others: a process that cannot reach an agent may still reach the database, and
 * would keep the lease. The others get a note, so that all decide alike who is next. Hears at once what others leave.
 */
export function createPassed({ sharing, clock, self, members, onPassed }: PassedOptions) {
  const passed = new Map<string, Map<string, number>>() // by work, when each member may have it again, in the order of leaving

  function note(work: string, member: string, until: number): void {
    const its = passed.get(work) ?? new Map<string, number>()
    its.delete(member)
    passed.set(work, its.set(member, until))
    for (const [name, known] of passed) {
      for (const [one, end] of known) if (end <= clock.now()) known.delete(one)
      if (known.size === 0) passed.delete(name)
    }
  }

  sharing.hear(PASSED, (name, _value, ageMs) => {
    const [member = '', ...work] = name.slice(PASSED.length).split('/')
    note(work.join('/'), member, clock.now() + PASSED_MS - ageMs)
    void onPassed()
  })

  return {
    /** Live members who have left the work to others; never all of them: when all did, not the one that left it longest ago. */
    by(work: string): readonly string[] {
      const live = new Set(members())
      const left = [...(passed.get(work) ?? [])].flatMap(([member, until]) =>
        until > clock.now() && live.has(member) ? [member] : [],
      )
      return left.length < live.size ? left : left.slice(1)
    },
    /** Leaves it to another member and releases it first. */
    async pass(work: string): Promise<void> {
      if (members().length < 2) return
      note(work, self, clock.now() + PASSED_MS)
      await onPassed()
      await sharing.tell(`${PASSED}${self}/${work}`, true)
    },
  }
}
