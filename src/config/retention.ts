/** How long finished things are kept (docs/storage.md#how-much-it-grows). */
import { DEFAULT_RETENTION, type Retention } from '../store/retention.js'
import type { ConfigFile } from './schema.js'
import { parseDuration } from './units.js'

type Set = NonNullable<NonNullable<ConfigFile['storage']>['retention']>

const lengths = ({ ledger, tasks, calls, answers }: Set): Partial<Retention> => ({
  ...(answers !== undefined && { answersMs: parseDuration(answers) }),
  ...(calls !== undefined && { callsMs: parseDuration(calls) }),
  ...(tasks !== undefined && { tasksMs: parseDuration(tasks) }),
  ...(ledger !== undefined && { ledgerMs: parseDuration(ledger) }),
})

/** What is set, and the defaults for the rest: 24 hours for answers, 30 days for calls and tasks, the ledger for ever. */
export function toRetention(set: Set = {}): Retention {
  return { ...DEFAULT_RETENTION, ...lengths(set) }
}
