/**
 * What people read in a terminal: a table that fits its width, the widest column cut first, and an explanation as lines, the
 * reason first, then what it rests on. What strangers wrote steers no terminal.
 */
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import type { Explanation } from './explain.js'
import { fileProblemText, problemText, whyNotMore } from './remedies.js'
import type { OfferExplanation, SignalExplanation } from './signal.js'
import type { AccountExplanation, UpstreamExplanation } from './upstream.js'

const GAP = '  '

function fitted(widths: number[], room: number): number[] {
  const result = [...widths]
  for (let over = sum(result) - room; over > 0; over -= 1) {
    const widest = result.indexOf(Math.max(...result))
    if ((result[widest] as number) <= 8) break
    result[widest] = (result[widest] as number) - 1
  }
  return result
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

function cut(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`
}

/** Lines with a header. What strangers wrote in a cell steers no terminal. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const cells = [header, ...rows].map(forTerminal)
  const natural = header.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)))
  const widths = fitted(natural, width - GAP.length * (header.length - 1))
  return cells
    .map((row) =>
      widths
        .map((each, column) => cut(row[column] ?? '', each))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

/** The width to draw for: what COLUMNS says, else the terminal's. What goes to a file or a pipe is cut nowhere. */
export function tableWidth(stream: { isTTY?: boolean; columns?: number }): number {
  const asked = Number(process.env.COLUMNS)
  if (asked > 0) return asked
  return stream.isTTY && stream.columns ? stream.columns : Number.POSITIVE_INFINITY
}

function verdictText({ verdict: outcome, evidence }: OfferExplanation): string {
  const grants = evidence?.grants.map(({ at }) => at).join(', ')
  return [outcome, evidence?.reason, evidence?.hint, grants].filter(Boolean).join(': ')
}

function signalLines(signal: SignalExplanation, width: number): string[] {
  const { handle, name, policy, defined_by_provider: defined, offers, deployments, conflicts } = signal
  const rows = offers.map((offer) => [
    offer.upstream,
    offer.fate,
    verdictText(offer),
    String(offer.pricing_options),
    offer.segment_id,
    offer.handle,
  ])
  return [
    `${name}  ${handle}${policy ? `  policy ${policy}` : ''}${defined ? '  defined by its provider' : ''}`,
    '',
    renderTable(['offer of', 'fate', 'verdict', 'prices', 'its segment', 'handle'], rows, width),
    ...(deployments.length > 0 ? [''] : []),
    ...deployments.map(
      ({ key, taken_from, is_live }) => `${key}: ${is_live ? 'live' : 'not live'}, from ${taken_from}`,
    ),
    ...conflicts.map(
      ({ field, taken_from, differing }) =>
        `${field}: from ${taken_from}; ${differing.join(', ')} say otherwise`,
    ),
  ]
}

function upstreamRow(upstream: UpstreamExplanation): string[] {
  const { id, state, read, published, confirmed_at: fresh } = upstream
  return [id, state, read, String(published), fresh ?? '-']
}

const accountName = (upstream: string, { caller, account }: AccountExplanation) =>
  `${upstream} for ${caller}, ${account}`

function accountRow(upstream: string, told: AccountExplanation): string[] {
  const { state, rate_card, rows, confirmed_at: fresh } = told
  return [accountName(upstream, told), state, rate_card ? 'the rate card' : String(rows), '', fresh ?? '-']
}

const upstreamRows = (upstream: UpstreamExplanation): string[][] => [
  upstreamRow(upstream),
  ...upstream.accounts.map((account) => accountRow(upstream.id, account)),
]

/** In lines of their own: a table would cut them. */
function whyLines(upstreams: readonly UpstreamExplanation[]): string[] {
  return upstreams.flatMap((upstream) => {
    const why = whyNotMore({ ...upstream, withheld: Object.entries(upstream.reasons) })
    const ofAccounts = upstream.accounts.flatMap((told) =>
      told.problem ? [`${accountName(upstream.id, told)}: ${problemText(told.problem)}`] : [],
    )
    return [...(why ? [`${upstream.id}: ${why}`] : []), ...ofAccounts]
  })
}

function providerLines({ provider, signal }: Explanation): string[] {
  const files = [provider, ...(signal?.offers.map(({ evidence }) => evidence) ?? [])]
  const [file] = files.filter((each) => each !== undefined)
  if (!file) return []
  const { document, problem, heldPointer } = file
  return [
    `provider ${file.provider}${document ? `: ${document.url}, confirmed ${document.confirmedAt}, good until ${document.expiresAt}` : ': no file'}`,
    ...(problem ? [`  problem since ${problem.since}: ${fileProblemText(problem)}`] : []),
    ...(heldPointer
      ? [`  a changed pointer to ${heldPointer.url} is on hold until ${heldPointer.adoptAt}`]
      : []),
  ]
}

function viewLines({ view }: Explanation): string[] {
  if (!view) return []
  const { caller, account, access, prices, filtered_by, activation_keys } = view
  const keys = activation_keys.map(
    ({ destination, shown }) => `${destination} ${shown ? 'shown' : 'not shown'}`,
  )
  return [
    `caller ${caller}${account === undefined ? '' : `, account ${account}`}: access ${access}, prices ${prices}`,
    ...(filtered_by.length > 0 ? [`  left out by ${filtered_by.join(', ')}`] : []),
    ...(keys.length > 0 ? [`  activation keys: ${keys.join('; ')}`] : []),
  ]
}

/** Blocks of lines with an empty line between them. `width`: columns of the terminal, for the tables. */
export function explanationText(explained: Explanation, width: number): string {
  const told = forTerminal(explained)
  const { ref, reason, detail, explanation, hint, signal, upstreams, snapshot, left_at } = told
  const header = ['upstream', 'state', 'rows', 'published', 'confirmed']
  const blocks = [
    [`${ref}: ${reason}${detail ? ` (${detail})` : ''}`, explanation, ...(hint ? [hint] : [])],
    left_at ? [`it left ${told.kind === 'upstream' ? 'the roster' : 'the feed'} at ${left_at}`] : [],
    signal ? signalLines(signal, width) : [],
    viewLines(told),
    providerLines(told),
    upstreams.length > 0 ? [renderTable(header, upstreams.flatMap(upstreamRows), width)] : [],
    whyLines(upstreams),
    snapshot ? [`snapshot of ${snapshot.published_at}, ${howMany(snapshot.signals, 'signal')}`] : [],
  ]
  return blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}
