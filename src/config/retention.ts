/** `storage.retention`: how long finished things are kept (docs/storage.md#how-much-it-grows), and its rules. */
import { parseDuration } from '../adcp/duration.js'
import { DEFAULT_RETENTION, type Retention } from '../store/expiry.js'
import type { Rule } from './problem.js'
import type { ConfigFile } from './schema.js'

const HOUR_MS = 60 * 60 * 1_000
const WEEK_MS = 7 * 24 * HOUR_MS

type RetentionFields = NonNullable<NonNullable<ConfigFile['storage']>['retention']>

const lengths = ({ ledger, tasks, calls, answers }: RetentionFields): Partial<Retention> => ({
  ...(answers !== undefined && { answersMs: parseDuration(answers) }),
  ...(calls !== undefined && { callsMs: parseDuration(calls) }),
  ...(tasks !== undefined && { tasksMs: parseDuration(tasks) }),
  ...(ledger !== undefined && { ledgerMs: parseDuration(ledger) }),
})

/** What is set, and the defaults for the rest: 24 hours for answers, 30 days for calls and tasks, the ledger for ever. */
export function toRetention(set: RetentionFields = {}): Retention {
  return { ...DEFAULT_RETENTION, ...lengths(set) }
}

/** What is wrong with it: callers rely on kept answers, and operators must have time to export what is kept. */
export function* retentionRules({ storage }: ConfigFile): Rule {
  const set = storage?.retention
  if (!set) return
  const { answersMs, callsMs } = toRetention(set)
  // The bounds of `replay_ttl_seconds` (schema protocol/get-adcp-capabilities-response).
  if (answersMs < HOUR_MS || answersMs > WEEK_MS) {
    yield { at: ['storage', 'retention', 'answers'], expected: 'a duration from 1h to 7d' }
  }
  if (callsMs < answersMs) {
    const at = ['storage', 'retention', set.calls === undefined ? 'answers' : 'calls']
    yield { at, expected: 'calls that are kept at least as long as answers' }
  }
  for (const [name, least] of [
    ['tasks', '1h'],
    ['ledger', '1d'],
  ] as const) {
    const given = set[name]
    if (given !== undefined && parseDuration(given) < parseDuration(least)) {
      yield { at: ['storage', 'retention', name], expected: `a duration of at least ${least}` }
    }
  }
}
