/**
 * What is found out without serving anybody, and without leaving a trace: by `tributary check` what a configuration would
 * federate, what not and why; by `tributary authz DOMAIN` a provider's adagents.json as Tributary reads it, and the entry that
 * would grant more.
 */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import { canonicalUrl } from '../adcp/url.js'
import { providerDomain } from '../authz/provider/domains.js'
import { createProviders } from '../authz/provider/providers.js'
import { entryFor, renderReport, reportProvider } from '../authz/report.js'
import { compileProvider } from '../authz/rules/verdict.js'
import { type CheckedUpstream, type CheckReport, checkConfig } from '../composition/check.js'
import { openWayOut } from '../composition/foundation.js'
import { isConfirmed } from '../composition/settings.js'
import type { Config } from '../config/values.js'
import { fileProblemText, problemText, whyNotMore } from '../explain/remedies.js'
import type { Clock } from '../net/clock.js'
import { openBlobFiles } from '../store/blob-files.js'
import { storageFolder } from '../store/database/sqlite.js'
import { type Blobs, createPassingBlobs } from '../upstreams/rows/storage.js'
import { CommandFailure, createProgress, EXIT, renderTable, tableWidth } from './terminal.js'

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
    ...upstream.quirks.map((quirk) => `- ${quirk}`),
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
  if (report.outcome === 'nothing') throw new CommandFailure('nothing would be federated')
  if (report.outcome === 'incomplete') {
    throw new CommandFailure('something is missing; the table says what', EXIT.incomplete)
  }
}

type AuthzCommand = {
  config: Config
  domain: string
  /** Looked at besides those that the file lists. */
  agent: string | undefined
  /** What an entry for the agent should name; at most one of them. */
  grant: { ids: readonly string[] } | { tags: readonly string[] } | undefined
  json: boolean
  clock: Clock
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
}

/** What a running server has learned (held pointers, the last good file), which stays its own to write. */
async function learned({ storage }: Config, onDamage: (name: string) => void): Promise<Blobs> {
  const folder = storageFolder(storage.url)
  const blobs = folder && join(folder, 'blobs')
  const isThere =
    blobs &&
    (await access(blobs).then(
      () => true,
      () => false,
    )) // no server has run here: nothing was learned
  return createPassingBlobs(isThere ? await openBlobFiles({ folder: blobs, onDamage }) : undefined)
}

/** The entry that was asked for; undefined when none was. */
function wantedEntry({ agent, grant }: AuthzCommand) {
  if (!grant) return undefined
  if (!agent) throw new CommandFailure('--ids and --tags need --agent URL, whom the entry is for', EXIT.usage)
  try {
    return entryFor(agent, grant, 'Signals')
  } catch (error) {
    if (error instanceof RangeError) throw new CommandFailure(error.message, EXIT.usage)
    throw error
  }
}

/** Prints the report. Throws `CommandFailure` when the domain is none or its file proves nothing now. */
export async function printAuthorization(command: AuthzCommand): Promise<void> {
  const { config, clock, out, err, json } = command
  const domain = providerDomain(command.domain)
  if (!domain) throw new CommandFailure(`${command.domain} is no registrable domain name`, EXIT.usage)
  const agent = command.agent === undefined ? undefined : canonicalUrl(command.agent)
  if (command.agent !== undefined && !agent) {
    throw new CommandFailure('--agent expects the http or https url of an agent', EXIT.usage)
  }
  const suggested = wantedEntry(command)
  const progress = createProgress(err, clock.now)
  progress.show(`asking ${domain}`)
  const quiet = () => {}
  const way = await openWayOut(config)
  const providers = createProviders({
    send: way.send,
    blobs: await learned(config, (name) => err.write(`tributary: blob ${name} is damaged\n`)),
    clock,
    refreshMs: config.authorization.refreshMs,
    concurrency: 1,
    limits: () => ({ domainsPerUpstream: 1, bytes: config.limits.providerBytes }),
    confirmPointer: (domain, url) => isConfirmed(config, domain, url),
    log: { info: quiet, warn: quiet }, // the report says everything
  })
  try {
    providers.want(new Map([['', [domain]]]))
    await providers.settled()
    const state = await providers.refresh(domain)
    progress.done()
    if (!state) throw new Error(`${domain} was wanted and is not held`)
    const report = reportProvider(state, compileProvider(state), clock.now(), agent ? [agent] : [])
    if (json) out.write(`${JSON.stringify(suggested ? { ...report, entry: suggested } : report)}\n`)
    else {
      out.write(`${renderReport(report).join('\n')}\n`)
      if (suggested) {
        out.write(`\nAn entry for authorized_agents[]:\n${JSON.stringify(suggested, null, 2)}\n`)
      }
    }
    if (report.unverifiable) {
      throw new CommandFailure(`${domain} proves nothing now: ${report.unverifiable}`, EXIT.incomplete)
    }
  } finally {
    progress.done()
    await providers.close()
    await way.close()
  }
}
