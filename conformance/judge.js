/**
 * Whether a run holds: no step fails that is not excepted, no exception outlives its reason, and nothing is missing: a
 * part without rows, or rows without a step that ran, is a failure.
 */
import { stepKey } from './outcome.js'

/** The faults of a run, in words; `excepted` maps a step's key to the reason. */
export function judge(rows, excepted, expected) {
  const faults = []
  const seen = new Map()
  for (const row of rows) {
    if (row.steps.length === 0) faults.push(`${row.release} ${row.transport} ${row.name}: no step at all`)
    for (const step of row.steps) {
      const key = stepKey(row, step)
      const before = seen.get(key)
      seen.set(key, before === 'failed' ? before : step.outcome)
      if (step.outcome === 'failed' && !excepted.has(key)) faults.push(`${key}: ${step.why}`)
    }
  }
  for (const { part, transport } of expected) {
    const own = rows.filter((row) => row.part === part && row.transport === transport)
    const ran = own.some(({ steps }) => steps.some(({ outcome }) => outcome === 'passed'))
    if (!ran) faults.push(`${part} over ${transport}: nothing ran`)
  }
  for (const key of excepted.keys()) {
    const outcome = seen.get(key)
    if (outcome === undefined)
      faults.push(`${key}: this exception names no step that ran; remove the exception`)
    else if (outcome !== 'failed')
      faults.push(`${key}: it ${outcome === 'passed' ? 'passes' : 'is skipped'}; remove the exception`)
  }
  return faults
}
