/** `tributary check`: what a configuration would federate and what not and why, before anybody is served with it. */
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import { type CheckedUpstream, type CheckReport, checkConfig } from '../composition/check.js'
import type { Config } from '../config/values.js'
import { fileProblemText, problemText, whyNotMore } from '../explain/remedies.js'
import { renderTable, tableWidth } from '../explain/text.js'
import type { Clock } from '../net/clock.js'
import { CommandFailure, createProgress, EXIT } from './terminal.js'

type CheckCommand = {
  config: Config
  json: boolean
  /** The id of an upstream to look at closely. */
  upstream?: string | undefined
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

function whyOf(upstream: CheckedUpstream): string {
  return whyNotMore({ ...upstream, withheld: Object.entries(upstream.withheld) })
}

/** One upstream closely: what it is sent and in which words, how that is known, and what it gives. */
function renderUpstream({ upstreams, speaks }: CheckReport, id: string, width: number): string {
  const upstream = upstreams.find((each) => each.id === id)
  if (!upstream) {
    throw new CommandFailure(
      `no upstream has the id ${id}; known: ${upstreams.map((each) => each.id).join(', ')}`,
    )
  }
  const { url, state, read, published, protocol } = upstream
  const rows = (speaks?.tasks ?? []).flatMap(({ task, name, arguments: all }) =>
    all.map(({ argument, said, from }, at) => [
      at > 0 ? '' : name === task ? task : `${task} (as ${name})`,
      argument,
      said.join(', ') || 'is not sent',
      from,
    ]),
  )
  const why = whyOf(upstream)
  return [
    `${id}  ${url}  ${protocol ?? 'transport unknown'}${speaks ? `, release ${speaks.release}` : ''}`,
    `${state}, rows read: ${read}, published: ${published}`,
    ...(why ? [why] : []),
    ...(speaks ? speaks.facts.map((fact) => `- it ${fact}`) : ['how it is to be spoken to is not known yet']),
    ...(rows.length > 0 ? ['', renderTable(['task', 'argument', 'said as', 'known from'], rows, width)] : []),
    '',
  ].join('\n')
}

function render(report: CheckReport, width: number): string {
  const { registries, upstreams, excluded, providers, warnings, signals, opened } = report
  const said = (problem: CheckedUpstream['problem']) => (problem ? problemText(problem) : 'ok')
  const tables = [
    {
      header: ['registry', 'agents', 'state'],
      rows: registries.map((r) => [r.url, String(r.agents), said(r.problem)]),
    },
    {
      header: ['upstream', 'protocol', 'state', 'rows', 'published'],
      rows: [
        ...upstreams.map((u) => [u.id, u.protocol ?? '?', u.state, u.read, String(u.published)]),
        ...excluded.map(({ url, reason }) => [url, '', `left out: ${reason}`, '', '']),
      ],
    },
    {
      header: ['provider', 'file', 'state'],
      rows: providers.map((p) => [p.domain, p.url ?? '-', p.problem ? fileProblemText(p.problem) : 'ok']),
    },
  ]
  const shut = opened.filter(({ problem }) => problem)
  const notes = opened.flatMap(({ place, note }) => (note ? [`note: ${place}: ${note}`] : []))
  const reasons = upstreams.flatMap((u) => (whyOf(u) ? [`${u.id}: ${whyOf(u)}`] : []))
  return [
    ...tables
      .filter(({ rows }) => rows.length > 0)
      .map(({ header, rows }) => `${renderTable(header, rows, width)}\n`),
    ...(reasons.length > 0 ? ['why not more:', ...reasons, ''] : []),
    ...shut.map(({ what, place, problem }) => `cannot be opened: the ${what} ${place}: ${problem}`),
    ...warnings.map((warning) => `warning: ${warning}`),
    ...notes,
    ...(warnings.length + shut.length + notes.length > 0 ? [''] : []),
    `${howMany(signals, 'signal')} (revision ${report.revision}). ${OUTCOMES[report.outcome]}`,
  ].join('\n')
}

/** Prints the report. Throws `CommandFailure` when something is missing, so that scripts see it. */
export async function printCheck(command: CheckCommand): Promise<void> {
  const { config, json, upstream, clock, random, out, err } = command
  const progress = createProgress(err, clock.now)
  const report = await checkConfig({ config, clock, random, upstream, onProgress: progress.show }).finally(
    progress.done,
  )
  const width = tableWidth(out)
  const shown = forTerminal(report)
  const close = upstream === undefined ? '' : renderUpstream(shown, upstream, width)
  out.write(`${json ? JSON.stringify(report) : close || render(shown, width)}\n`)
  if (close) return
  if (report.outcome === 'nothing') throw new CommandFailure('nothing would be federated')
  if (report.outcome === 'incomplete') {
    throw new CommandFailure('something is missing; the table says what', EXIT.incomplete)
  }
}
