/** A provider report as lines for a terminal. Control characters in the provider's texts are removed. */
import { howMany } from '../../adcp/answer.js'
import { VERDICT_REASONS } from '../rules/verdict.js'
import type { ProviderReport } from './report.js'

const MAX_NAMES = 5

function plain(text: string): string {
  return text.replace(/\p{C}/gu, '\ufffd').slice(0, 120)
}

function some(names: readonly string[]): string {
  const more = names.length - MAX_NAMES
  return names.slice(0, MAX_NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function documentLines({ document, heldPointer, problem, unverifiable }: ProviderReport): string[] {
  const lines: string[] = []
  if (unverifiable) lines.push(`  unverifiable (${unverifiable}): ${VERDICT_REASONS[unverifiable]}`)
  if (document) {
    const { url, validator, fetchedAt, confirmedAt, expiresAt } = document
    lines.push(`  file        ${url}`)
    if (validator) lines.push(`  validator   ${validator.kind} ${plain(validator.value)}`)
    lines.push(`  fetched     ${fetchedAt}, confirmed ${confirmedAt}, good until ${expiresAt}`)
  }
  if (problem) lines.push(`  problem     ${problem.reason} since ${problem.since}: ${problem.message}`)
  if (heldPointer) lines.push(`  on hold     pointer to ${heldPointer.url} until ${heldPointer.adoptAt}`)
  return lines
}

/** The whole report: the file, its signals, its grants, how many signals each agent may sell, and what is wrong. */
export function renderReport(report: ProviderReport): string[] {
  const { provider, signals, grants, coverage, diagnostics, more } = report
  const lines = [provider, ...documentLines(report), '', `Signals: ${signals.length}`]
  for (const { id, name, valueType, tags } of signals) {
    const described = [valueType && plain(valueType), name && plain(name)].filter(Boolean).join(', ')
    lines.push(`  ${id}  ${described}${tags.length > 0 ? `  [${some(tags)}]` : ''}`)
  }
  lines.push('', `Grants: ${grants.length}`)
  for (const { at, agent, by, names, from, until, countries } of grants) {
    const window = from || until ? `, ${from ?? 'ever'} to ${until ?? 'ever'}` : ''
    const where = countries ? `, in ${some(countries)}` : ''
    lines.push(`  ${at}  ${agent}  ${by}: ${some(names)}${window}${where}`)
  }
  lines.push('', 'Agents:')
  for (const { agent, authorized, published, hint } of coverage) {
    lines.push(`  ${agent}  ${authorized} of ${howMany(published, 'signal')}${hint ? `  (${hint})` : ''}`)
  }
  if (more.agents > 0) lines.push(`  and ${more.agents} more`)
  lines.push('', diagnostics.length === 0 ? 'No diagnostics.' : 'Diagnostics:')
  for (const { at, effect, message } of diagnostics) lines.push(`  ${effect}  ${at}  ${message}`)
  if (more.diagnostics > 0) lines.push(`  and ${more.diagnostics} more`)
  return lines
}
