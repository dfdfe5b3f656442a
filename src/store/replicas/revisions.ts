/** Which configuration each process on one storage runs, and which of these is the newest. */
import { isRecord } from '../../adcp/json.js'
import type { Clock } from '../../net/clock.js'
import { type Sharing, UNSAID } from '../../upstreams/rows/storage.js'

const CONFIGURATION = 'configuration/' // names of notes
const GONE_MS = 60 * 60 * 1_000 // a process tells its revision before others have seen that it lives
const AGAIN_MS = 60_000 // what is told is forgotten after a week (notes.ts), or with what a storage lost that was put back
const UNTOLD_AGAIN_MS = 1_000

type RevisionsOptions = {
  sharing: Pick<Sharing, 'tell' | 'hear'>
  clock: Clock
  /** Names this process, and all that live. */
  self: string
  members(): readonly string[]
  /** Of the configuration that this process runs now. */
  revision(): string
  /** Of the snapshots that this process writes and reads. */
  form: number
  /** Called when other processes may be the ones that build. */
  onChange(): void
}

/** `order`: how new the revision is; a higher one is newer. */
type Runs = { revision: string; order: number; form: number }

/** Another release may write it otherwise: with an order that is no number, no process would be the newest. */
function isRuns(value: unknown): value is Runs {
  return (
    isRecord(value) &&
    typeof value.revision === 'string' &&
    Number.isSafeInteger(value.order) &&
    typeof value.form === 'number'
  )
}

/** Negative when `one` is older; two that were first run at the same moment have some order, the same everywhere. */
function compare(one: Runs, other: Runs): number {
  if (one.order !== other.order) return one.order - other.order
  if (one.revision === other.revision) return 0
  return one.revision < other.revision ? -1 : 1
}

/**
 * Which configuration each live process runs: one that a change did not reach serves another feed than the others, and every
 * process has to be able to say so. The newest configuration is the one that was first run last, or that a process took up while it
 * ran; those who run it build the feed. Snapshots have a form, which releases change: each form has builders of its own, so that
 * processes of two releases work at the same time. Hears at once what others run, and tells what this process runs from `start` on.
 */
export function createRevisions(options: RevisionsOptions) {
  const { sharing, clock, self, members, revision, form, onChange } = options
  const told = new Map<string, Runs & { heardAt: number }>()
  let mine: Runs | undefined
  let closed = false
  let cancel = () => {}
  sharing.hear(CONFIGURATION, (name, value) => {
    if (!isRuns(value)) return
    const from = name.slice(CONFIGURATION.length)
    const before = told.get(from)
    told.set(from, { ...value, heardAt: clock.now() })
    for (const [member, { heardAt }] of told) {
      if (heardAt + GONE_MS < clock.now() && !members().includes(member)) told.delete(member)
    }
    if (before?.form !== value.form || compare(before, value) !== 0) onChange()
  })

  async function tell(): Promise<void> {
    cancel()
    const isTold = await sharing.tell(`${CONFIGURATION}${self}`, mine)
    if (!closed) cancel = clock.after(isTold ? AGAIN_MS : UNTOLD_AGAIN_MS, () => void tell())
  }

  const highest = (all: readonly Runs[]) => Math.max(0, ...all.map(({ order }) => order))

  /** A revision that was run before is as new as it was then, until a process takes it up while it runs. */
  function run(isChange: boolean): void {
    const known = [...told.values()]
    const same = known.filter((one) => one.revision === revision())
    const order = same.length > 0 && !isChange ? highest(same) : highest(known) + 1
    mine = { revision: revision(), order, form }
    onChange()
    void tell()
  }

  const runsOf = (member: string) => (member === self ? mine : told.get(member))

  return {
    /** Tells what this process runs; to be called once what the others told was heard. */
    start: (): void => run(false),
    /** To be called whenever this process has taken up another configuration. */
    changed(): void {
      if (mine?.revision !== revision()) run(true)
    },
    /** The live processes that run the newest configuration, of those with snapshots of this process's form. */
    newest(): string[] {
      const runs = members().flatMap((member) => {
        const its = runsOf(member)
        return its?.form === form ? [{ member, its }] : []
      })
      const [newest] = runs.sort((one, other) => compare(other.its, one.its))
      return runs.filter(({ its }) => its.revision === newest?.its.revision).map(({ member }) => member)
    },
    /** Whether no live process runs a newer configuration than this one. Several may run the newest, each since another moment. */
    isNewest(): boolean {
      const own = mine
      if (!own) return false // it has not begun
      const all = members().map((member) => runsOf(member) ?? own)
      const newest = all.reduce((one, other) => (compare(other, one) > 0 ? other : one), own)
      return newest.revision === own.revision
    },
    forms: (): ReadonlySet<number> => new Set(members().map((member) => runsOf(member)?.form ?? UNSAID)),
    /** How many live processes run each revision. One that has not said yet which it runs is not counted. */
    live(): Record<string, number> {
      const counts: Record<string, number> = {}
      for (const member of members()) {
        const its = runsOf(member)?.revision
        if (its !== undefined) counts[its] = (counts[its] ?? 0) + 1
      }
      return counts
    },
    close(): void {
      closed = true
      cancel()
    },
  }
}
