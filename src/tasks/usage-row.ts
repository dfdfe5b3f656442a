/** One row of a usage report: which upstream sold what it reports, and the row as that upstream gets it. */

import type { AccountReference } from '../adcp/caller.js'
import type { ReportUsageRequest } from '../adcp/requests/account-requests.js'
import type { Resolved } from '../feed/lookup.js'
import type { Entry } from '../store/records/ledger.js'

/** Rows may carry more than the schema lists: it is passed on. */
export type UsageRow = ReportUsageRequest['usage'][number]

export type SoldOption = {
  upstream: string
  agentUrl: string
  segmentId: string
  upstreamOptionId?: string
}

/** The one upstream that sold what the row reports, from the ledger first: a signal may have left the feed. */
export function soldBy(
  row: UsageRow,
  history: readonly Entry[],
  signal: Resolved | undefined,
): SoldOption | 'ambiguous' | undefined {
  const { signal_agent_segment_id: handle = '', pricing_option_id: optionId } = row
  const sold = new Map<string, SoldOption>()
  for (const entry of history) {
    if (entry.action !== 'activate' || entry.outcome === 'failed') continue
    if (handle !== entry.signalHandle && handle !== entry.offerHandle) continue
    if (optionId !== undefined && entry.pricingOptionId !== optionId) continue
    const { upstream, agentUrl, segmentId, upstreamOptionId } = entry
    const to = { upstream, agentUrl, segmentId }
    sold.set(entry.offerHandle, { ...to, ...(optionId !== undefined && { upstreamOptionId }) })
  }
  if (sold.size === 0 && signal) {
    for (const offer of signal.offers) {
      if (handle !== signal.handle && handle !== offer.handle) continue
      const found = offer.options.find(({ option }) => option.pricing_option_id === optionId)
      if (optionId !== undefined && !found) continue
      const { upstream, agentUrl, segmentId } = offer
      const to = { upstream, agentUrl, segmentId }
      sold.set(offer.handle, { ...to, ...(found && { upstreamOptionId: found.upstreamId }) })
    }
  }
  const [first, another] = [...sold.values()]
  return another ? 'ambiguous' : first
}

/** The row as the upstream gets it: its own ids, and the caller's account as it knows it, if it does. */
export function upstreamRow(
  row: UsageRow,
  to: SoldOption,
  account: AccountReference | undefined,
): Record<string, unknown> {
  const { account: _, signal_agent_segment_id: __, pricing_option_id: ___, ...figures } = row
  return {
    ...(account && { account }),
    ...figures,
    signal_agent_segment_id: to.segmentId,
    ...(to.upstreamOptionId !== undefined && { pricing_option_id: to.upstreamOptionId }),
  }
}
