/** report_usage: tells each upstream how the signals it sold were used (schema account/report-usage-request). */
import type { Activation } from '../activation/activation.js'
import { ReportUsageRequest } from '../adcp/requests/report-usage.js'
import { ReportUsageResponse } from '../adcp/responses.js'
import type { Task } from './task.js'

export function reportUsage({
  reportUsage: report,
}: Pick<Activation, 'reportUsage'>): Task<typeof ReportUsageRequest> {
  return {
    name: 'report_usage',
    title: 'Report usage',
    description:
      'Reports impressions, spend and cost of activated signals for a period. Each row names its account, the ' +
      "signal's signal_agent_segment_id and the pricing_option_id of its activation; rows go to the upstream that " +
      'sold the signal. Rows that were not accepted stand in errors. After an error with retry_after repeat the whole ' +
      'request with the same idempotency_key: nothing is counted twice.',
    request: ReportUsageRequest,
    response: ReportUsageResponse,
    mutating: true,
    handle: (input, { caller, deadline }) => report(input, caller, deadline),
  }
}
