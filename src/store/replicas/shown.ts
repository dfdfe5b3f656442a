/**
 * Which generation of the feed each process on one storage shows. Subscribers who read at any of them are told of a generation when
 * all show it: one that is told earlier, and reads where the last one still stands, would stay behind until the next change.
 */
import type { Clock } from '../../net/clock.js'
import { createRecent } from '../../process/memory.js'
import type { Sharing } from '../../upstreams/rows/storage.js'
import { LEASE_LASTS_MS } from './leases.js'

const MOST_PROCESSES = 1_000 // also those that have ended

type ShownOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear' | 'onTurns'>
  /** Of the notes in which they tell each other. */
  prefix: string
  /** Names this process, and all that live. */
  self: string
  members(): readonly string[]
  clock: Clock
  /** Called whenever all processes have come to show what this one does. */
  onEverywhere(): void
}

/**
 * A process that has not come to show what the others do within a lease is not waited for until it does: it is cut off, and its
 * lease ends, or it cannot load what it was told of. Nor is one waited for that never said what it shows.
 */
export function createShown({ sharing, prefix, self, members, clock, onEverywhere }: ShownOptions) {
  const others = createRecent<string>(MOST_PROCESSES) // what each member said last
  const late = new Set<string>()
  let mine: string | undefined
  let isTold = true // of what this process shows, or nothing is to be told
  let cancel: (() => void) | undefined

  const behind = () => members().filter((member) => member !== self && (others.get(member) ?? mine) !== mine)

  /** Whether readers see what this process shows wherever they ask. */
  const isEverywhere = () => mine === undefined || behind().every((member) => late.has(member))

  function waitNoLonger(): void {
    cancel = undefined
    for (const member of behind()) late.add(member)
    look()
  }

  function look(): void {
    const now = new Set(behind())
    for (const member of late) if (!now.has(member)) late.delete(member)
    if (!isEverywhere()) {
      isTold = false
      cancel ??= clock.after(LEASE_LASTS_MS, waitNoLonger)
      return
    }
    cancel?.()
    cancel = undefined
    if (isTold) return
    isTold = true
    onEverywhere()
  }

  sharing.hear(prefix, (name, value) => {
    others.set(name.slice(prefix.length), value as string)
    look()
  })
  sharing.onTurns(look) // also when a member has ended

  /** To be called again and again: one that joins hears what was told within a week, and a storage that was put back has lost it. */
  function tell(): void {
    if (mine !== undefined) void sharing.tell(`${prefix}${self}`, mine)
  }

  return {
    isEverywhere,
    tell,
    /** This process shows another generation from now on; undefined: one that an earlier release built, without a name. */
    show(generation: string | undefined): void {
      mine = generation
      isTold = false
      tell()
      look()
    },
    close: () => cancel?.(),
  }
}
