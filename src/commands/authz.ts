/** `tributary authz DOMAIN`: a provider's adagents.json as Tributary reads it, and the entry that would grant more. */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { canonicalUrl } from '../adcp/url.js'
import { providerDomain } from '../authz/provider/domains.js'
import { createProviders } from '../authz/provider/providers.js'
import { entryFor, renderReport, reportProvider } from '../authz/report.js'
import { compileProvider } from '../authz/rules/verdict.js'
import { openWayOut } from '../composition/foundation.js'
import { isConfirmed } from '../composition/settings.js'
import type { Config } from '../config/values.js'
import type { Clock } from '../net/clock.js'
import { openBlobFiles } from '../store/blob-files.js'
import { storageFolder } from '../store/database/folder.js'
import { type Blobs, createPassingBlobs } from '../upstreams/rows/storage.js'
import { CommandFailure, createProgress, EXIT } from './terminal.js'

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

function entry({ agent, grant }: AuthzCommand) {
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
  const suggested = entry(command)
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
