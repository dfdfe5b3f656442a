/**
 * Why a signal that no slice lists is missing. The evidence is checked from the strongest to the weakest: a row that
 * was refused, a signal that was there before, a provider that publishes it, and finally that nothing is known.
 */
import { type CompiledProvider, decide } from '../authz/rules/decide.js'
import type { Identity } from '../merge/identity.js'
import type { UpstreamStatus } from '../upstreams/agent/status.js'
import type { Roster } from '../upstreams/roster/roster.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Departure } from './departures.js'

/** Every answer to "why": one word for machines and metrics, one sentence for people (docs/explain.md lists them). */
export const WHY = {
  present: 'it is in the feed',
  hidden_from_caller: 'it is in the feed, but this caller may read nothing here',
  filtered_out: 'it is in the feed, but the filters, destinations or countries of this request leave it out',
  not_authorized: 'no offer of it may be published under the policy in force: each offer says why',
  no_country_left: 'provider, grant and row together allow no country',
  no_room:
    "that upstream's offer gives way: its signal's offers list more than one row may, and it most of it",
  outranked: "that upstream's offer gives way: an authorized offer of the same signal is there",
  offer_unknown: 'the signal is in the feed, but no upstream of this handle offers it',
  refused_row: 'the upstream sends a row for it that cannot be kept',
  withdrawn: 'the upstream that offered it does not list it any more',
  not_offered: 'its provider publishes it, but no upstream that is read offers it',
  upstream_excluded: 'the upstream that may offer it is kept out of the roster',
  upstream_left: 'the upstream that offered it has left the roster',
  upstream_absent: 'the upstream that may offer it gives no rows now',
  upstream_starting: 'the upstream that may offer it has not been read yet',
  nothing_published: 'the upstream is read, but none of its rows may be published',
  starting: 'the first snapshot is still being built',
  unknown: 'nothing that is read now, and nothing seen since the start, goes by this name',
} as const

export type Why = keyof typeof WHY

/** `detail` is a closed word; `agentUrls` are the upstreams it is about. */
export type Absence = { why: Why; detail?: string; agentUrls: readonly string[] }

export type AbsenceInput = {
  /** As the person typed it. */
  ref: string
  identity?: Identity
  departure?: Departure
  /** The provider of the identity, when it is held. */
  provider?: CompiledProvider
  slices: readonly Slice[]
  roster: Roster
  statuses: readonly UpstreamStatus[]
  canonical(url: string): string | undefined
  now: number
}

function refusedRow({ ref, identity, slices }: AbsenceInput): Absence | undefined {
  const names = new Set([ref])
  if (identity?.kind === 'provider') names.add(`${identity.domain}/${identity.id}`)
  if (identity?.kind === 'source') names.add(`${identity.agentUrl}#${identity.id}`)
  for (const { agentUrl, refused = [] } of slices) {
    const row = refused.find(({ segment = '', signal = '' }) => names.has(segment) || names.has(signal))
    if (row) return { why: 'refused_row', detail: row.reason, agentUrls: [agentUrl] }
  }
  return undefined
}

/** The reason why an upstream's rows are missing now; undefined when it is read. */
function away(agentUrl: string, { roster, statuses, canonical }: AbsenceInput): Absence | undefined {
  const agentUrls = [agentUrl]
  const entry = roster.entries.find((each) => each.agentUrl === agentUrl)
  if (!entry) {
    const out = roster.excluded.find(({ url }) => canonical(url) === agentUrl)
    return out
      ? { why: 'upstream_excluded', detail: out.reason, agentUrls }
      : { why: 'upstream_left', agentUrls }
  }
  const status = statuses.find(({ id }) => id === entry.id)
  if (!status || status.state === 'starting') return { why: 'upstream_starting', agentUrls }
  if (status.state !== 'absent') return undefined
  return {
    why: 'upstream_absent',
    ...(status.problem && { detail: status.problem.reason }),
    agentUrls,
  }
}

function departed(input: AbsenceInput): Absence | undefined {
  const { departure } = input
  if (!departure) return undefined
  const { agentUrls } = departure
  const causes = agentUrls.flatMap((agentUrl) => away(agentUrl, input) ?? [])
  return causes[0] ?? { why: 'withdrawn', agentUrls }
}

/** The provider publishes the signal, so an agent that it authorizes should offer it. */
function published(input: AbsenceInput): Absence | undefined {
  const { provider, identity, roster, canonical, now } = input
  if (identity?.kind !== 'provider' || !provider?.rules) return undefined
  if (provider.rules.signalNumber(identity.id) < 0) return undefined
  const agents = [
    ...roster.entries.map(({ agentUrl }) => agentUrl),
    ...roster.excluded.flatMap(({ url }) => canonical(url) ?? []),
  ]
  const entitled = agents.filter((url) => decide(provider, identity.id, url, now).outcome === 'authorized')
  const causes = entitled.flatMap((agentUrl) => away(agentUrl, input) ?? [])
  return causes[0] ?? { why: 'not_offered', agentUrls: entitled }
}

/** The strongest reason that has evidence; `unknown` when none has. */
export function explainAbsence(input: AbsenceInput): Absence {
  return refusedRow(input) ?? departed(input) ?? published(input) ?? { why: 'unknown', agentUrls: [] }
}
