/** `tributary check`: what a configuration would federate and what not and why, before anybody is served with it. */

import type { Config } from '../config/values.js'
import type { Clock } from '../net/clock.js'
import { type CheckedUpstream, type CheckReport, checkConfig } from '../operations/check.js'
import { fileProblemText, problemText } from '../operations/remedies.js'
import { whyNotMore } from '../operations/why-not-more.js'
import { CommandFailure, EXIT } from './failure.js'
import { createProgress } from './progress.js'
import { renderTable, tableWidth } from './table.js'

export type CheckCommand = {
  config: Config
  json: boolean
  clock: Clock
  random: () => number
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
}

const OUTCOMES: Readonly<Record<CheckReport['outcome'], string>> = {
  complete: 'Everything that is configured would be federated.',
  incomplete:
    'Some of it would be missing; see "why not more". A server would keep trying and serve the rest.',
  nothing: 'Nothing would be federated.',
}

function render(report: CheckReport, width: number): string {
  const { registries, upstreams, excluded, providers, warnings, signals } = report
  const said = (problem: CheckedUpstream['problem']) => (problem ? problemText(problem) : 'ok')
  const tables = [
    {
      header: ['registry', 'agents', 'state'],
      rows: registries.map((r) => [r.url, String(r.agents), said(r.problem)]),
    },
    {
      header: ['upstream', 'protocol', 'state', 'rows', 'published', 'why not more'],
      rows: [
        ...upstreams.map((u) => [
          u.id,
          u.protocol ?? '?',
          u.state,
          u.read,
          String(u.published),
          whyNotMore({ ...u, withheld: Object.entries(u.withheld) }),
        ]),
        ...excluded.map(({ url, reason }) => [url, '', 'left out', '', '', reason]),
      ],
    },
    {
      header: ['provider', 'file', 'state'],
      rows: providers.map((p) => [p.domain, p.url ?? '-', p.problem ? fileProblemText(p.problem) : 'ok']),
    },
  ]
  return [
    ...tables
      .filter(({ rows }) => rows.length > 0)
      .map(({ header, rows }) => `${renderTable(header, rows, width)}\n`),
    ...warnings.map((warning) => `warning: ${warning}`),
    ...(warnings.length > 0 ? [''] : []),
    `${signals} signals (revision ${report.revision}). ${OUTCOMES[report.outcome]}`,
  ].join('\n')
}

/** Prints the report. Throws `CommandFailure` when something is missing, so that scripts see it. */
export async function printCheck({ config, json, clock, random, out, err }: CheckCommand): Promise<void> {
  const progress = createProgress(err, clock.now)
  const report = await checkConfig({ config, clock, random, onProgress: progress.show }).finally(
    progress.done,
  )
  out.write(json ? `${JSON.stringify(report)}\n` : `${render(report, tableWidth(out))}\n`)
  if (report.outcome === 'nothing') throw new CommandFailure('nothing would be federated')
  if (report.outcome === 'incomplete') {
    throw new CommandFailure('something is missing; the table says what', EXIT.incomplete)
  }
}
