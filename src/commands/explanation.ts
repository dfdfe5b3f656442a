/**
 * `tributary explain`: asks a running server why a signal or an upstream is, or is not, in its feed, and says it in text for a
 * terminal.
 */
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import { Type } from '../adcp/schema.js'
import type { Explanation } from '../explain/explain.js'
import { fileProblemText, problemText, whyNotMore } from '../explain/remedies.js'
import type { NamedSignal } from '../explain/segment.js'
import type { OfferExplanation, SignalExplanation } from '../explain/signal.js'
import type { AccountExplanation, UpstreamExplanation } from '../explain/upstream.js'
import { askServer, type Target } from './address.js'
import { renderTable, tableWidth } from './terminal.js'

/** What every explanation has. */
const Explained = Type.Unsafe<Explanation>(
  Type.Object({
    ...{ ref: Type.String(), kind: Type.String(), reason: Type.String(), explanation: Type.String() },
    upstreams: Type.Array(Type.Object({ id: Type.String(), accounts: Type.Array(Type.Unknown()) })),
  }),
)

type ExplainCommand = Target & {
  ref: string
  caller: string | undefined
  account: string | undefined
  filters: Record<string, unknown> | undefined
  countries: readonly string[]
  json: boolean
  out: NodeJS.WriteStream
}

function question({ ref, caller, account, filters, countries }: ExplainCommand): URLSearchParams {
  const params = new URLSearchParams({ ref })
  if (caller !== undefined) params.set('caller', caller)
  if (account !== undefined) params.set('account', account)
  if (filters) params.set('filters', JSON.stringify(filters))
  for (const country of countries) params.append('country', country)
  return params
}

/** Of an offer: its verdict and what that rests on. */
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

const NOT_IN_3_0 = 'not shown in release 3.0, which has no signal without a price, coverage and a provider'

function viewLines({ view }: Explanation): string[] {
  if (!view) return []
  const { caller, account, access, prices, filtered_by, in_3_0, activation_keys } = view
  const keys = activation_keys.map(
    ({ destination, shown }) => `${destination} ${shown ? 'shown' : 'not shown'}`,
  )
  return [
    `caller ${caller}${account === undefined ? '' : `, account ${account}`}: access ${access}, prices ${prices}`,
    ...(filtered_by.length > 0 ? [`  left out by ${filtered_by.join(', ')}`] : []),
    ...(in_3_0 || filtered_by.length > 0 || access === 'none' ? [] : [`  ${NOT_IN_3_0}`]),
    ...(keys.length > 0 ? [`  activation keys: ${keys.join('; ')}`] : []),
  ]
}

const namedLine = ({ handle, upstream }: NamedSignal) => `  ${handle} by ${upstream}`

const quirkLines = (upstreams: readonly UpstreamExplanation[]) =>
  upstreams.flatMap(({ id, quirks }) => quirks.map((quirk) => `${id}: ${quirk}`))

/** Blocks of lines with an empty line between them. `width`: columns of the terminal, for the tables. */
export function explanationText(explained: Explanation, width: number): string {
  const told = forTerminal(explained)
  const { ref, reason, detail, explanation, hint, signal, upstreams, snapshot, left_at, also = [] } = told
  const header = ['upstream', 'state', 'rows', 'published', 'confirmed']
  const blocks = [
    [`${ref}: ${reason}${detail ? ` (${detail})` : ''}`, explanation, ...(hint ? [hint] : [])],
    left_at ? [`it left ${told.kind === 'upstream' ? 'the roster' : 'the feed'} at ${left_at}`] : [],
    also.length > 0 ? ['other signals are called so too:', ...also.map(namedLine)] : [],
    signal ? signalLines(signal, width) : [],
    viewLines(told),
    providerLines(told),
    upstreams.length > 0 ? [renderTable(header, upstreams.flatMap(upstreamRows), width)] : [],
    whyLines(upstreams),
    told.kind === 'upstream' ? quirkLines(upstreams) : [],
    snapshot ? [`snapshot of ${snapshot.published_at}, ${howMany(snapshot.signals, 'signal')}`] : [],
  ]
  return blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')
}

/** Prints the explanation. Throws `CommandFailure` when the server cannot be asked or refuses. */
export async function printExplanation(command: ExplainCommand): Promise<void> {
  const { json, out } = command
  const path = `/explain?${question(command)}`
  const body = await askServer(command, path, { method: 'GET', answer: Explained })
  out.write(json ? `${JSON.stringify(body)}\n` : `${explanationText(body, tableWidth(out))}\n`)
}
