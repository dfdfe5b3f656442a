/**
 * Work that a member could not do and left to the others: a process whose way to an agent is cut can still reach the
 * database, and would keep the lease. It is told, so that all decide alike who is next. Where every member has left it, it goes
 * to the one that did so longest ago.
 */
import type { Clock } from '../../net/clock.js'
import type { Sharing } from '../../upstreams/rows/sharing.js'

const PREFIX = 'passed/'
/** Then who left it may have it again: long enough that a lasting trouble costs little, and that work evens out again. */
const PASSED_MS = 10 * 60_000

type PassedOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear'>
  clock: Clock
  self: string
  members(): readonly string[]
  /** Called when work has been left to others; resolves when what is not this member's any more is let go of. */
  onPassed(): Promise<void>
}

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

  sharing.hear(PREFIX, (name, _value, ageMs) => {
    const [member = '', ...work] = name.slice(PREFIX.length).split('/')
    note(work.join('/'), member, clock.now() + PASSED_MS - ageMs)
    void onPassed()
  })

  return {
    /** Live members who have left the work to others; never all of them. */
    by(work: string): readonly string[] {
      const live = new Set(members())
      const left = [...(passed.get(work) ?? [])].flatMap(([member, until]) =>
        until > clock.now() && live.has(member) ? [member] : [],
      )
      return left.length < live.size ? left : left.slice(1)
    },
    /** Leaves it to another member, who finds it free. */
    async pass(work: string): Promise<void> {
      if (members().length < 2) return
      note(work, self, clock.now() + PASSED_MS)
      await onPassed()
      await sharing.tell(`${PREFIX}${self}/${work}`, true)
    },
  }
}
