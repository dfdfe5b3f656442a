#!/usr/bin/env node
/**
 * The command line. The commands are in `commands/`; this file reads arguments and turns failures into exit codes. A
 * command is loaded when it is called: most need a small part of the product, and all of it takes a second.
 */
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command, Option } from 'commander'
import {
  CommandFailure,
  copyPlace,
  destination,
  duration,
  EXIT,
  httpsUrl,
  httpUrl,
  jsonObject,
  moment,
  names,
  oneOf,
  wholeNumber,
} from './commands/terminal.js'
import { ConfigError, loadConfig } from './config/load.js'
import type { Config } from './config/values.js'
import { systemClock } from './net/clock.js'
import { holdSignals } from './process/early-signals.js'
import type { LedgerFilter } from './store/records/ledger.js'

holdSignals()

const MANIFEST = new URL('../../package.json', import.meta.url)
const SANDBOX_CONFIG = resolve(dirname(fileURLToPath(import.meta.url)), '../../config/sandbox.yaml')
const MAX_SANDBOX_SIGNALS = 1_000_000
const OUTCOMES = ['pending', 'submitted', 'completed', 'failed', 'superseded', 'unknown'] as const

type Common = { config: string }
type Activating = {
  option?: string
  account?: string
  key?: string
  deactivate: boolean
  destination: { type: string }
}
type Mirroring = {
  url: string
  out: string
  token?: string
  format: 'ndjson' | 'sqlite'
  filters?: Record<string, unknown>
  account?: string
  every: number
  once: boolean
  listen?: string
  host: string
  port: number
  brand?: string
  allowNetworks?: string[]
}
type Asking = Common & { url?: string; token?: string; filters?: Record<string, unknown>; json: boolean }

const { stdout: out, stderr: err } = process

const configOf = (options: Common): Promise<Config> => loadConfig(options.config, process.env)

const { version } = JSON.parse(readFileSync(MANIFEST, 'utf8')) as { version: string }

let isServing = false

/**
 * Whoever reads a pipe may stop before the end (`tributary feed | head`), and a disk may be full. That ends a command, and never a
 * server, which serves on without its log.
 */
for (const [stream, name] of [
  [out, 'output'],
  [err, 'error'],
] as const) {
  stream.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (isServing) return
    if (code === 'EPIPE') process.exit()
    err.write(`tributary: the standard ${name} cannot be written: ${message}\n`)
    process.exit(EXIT.failed)
  })
}

const program = new Command('tributary')
  .version(version)
  .description(
    'A federating signals agent: many signals agents in, one verified, versioned wholesale feed out.',
  )
  .showHelpAfterError('(tributary --help lists the commands, tributary COMMAND --help their options)')
  .exitOverride()

/** From the environment where it is not given; help names the variable, and never shows what it holds. */
const tokenOption = (what: string) => new Option('-t, --token <token>', what).env('TRIBUTARY_TOKEN')
const urlOption = (what: string) => new Option('-u, --url <url>', what).env('TRIBUTARY_URL')

function command(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option('-c, --config <file>', 'the configuration, YAML or JSON', SANDBOX_CONFIG)
}

command('serve', 'Federate the configured upstreams and serve the merged feed.')
  .option(
    '--sandbox-signals <n>',
    'how many signals the sandbox world offers',
    wholeNumber(24, MAX_SANDBOX_SIGNALS),
  )
  .option('-p, --port <n>', 'listen there, whatever the configuration says', wholeNumber(0, 65_535))
  .action(async ({ config, sandboxSignals, port }: Common & { sandboxSignals?: number; port?: number }) => {
    const { serve } = await import('./commands/serve.js')
    isServing = true
    await serve({ config, sandboxSignals, port })
  })

command('feed', 'Walk a running feed page by page and print it.')
  .addOption(urlOption("the feed's MCP address (default: where the configuration's server listens)"))
  .addOption(tokenOption('a bearer key; without one the walk is anonymous'))
  .option('-f, --filters <json>', 'filters of get_signals as a JSON object', jsonObject)
  .option('-n, --limit <n>', 'rows the table shows', wholeNumber(0, 1_000_000), 20)
  .option('--json', 'one JSON line a signal, all of them', false)
  .action(async ({ url, token, filters, limit, json, ...options }: Asking & { limit: number }) => {
    const { printFeed } = await import('./commands/buyer.js')
    await printFeed({ ...options, url, token, filters, limit, json, out, err, now: Date.now })
  })

command('explain', 'Say why a signal or an upstream is, or is not, in the feed of a running server.')
  .argument('<ref>', 'a handle, domain/signal_id, url#signal_id, segment id, or the id or url of an upstream')
  .addOption(urlOption("the server's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('an operator key'))
  .option('--caller <id>', 'as this caller sees it (anonymous, or an id of callers.keys)')
  .option('--account <id>', 'for this account of the caller')
  .option('-f, --filters <json>', "filters of the caller's request that it is missing from", jsonObject)
  .option('--countries <list>', 'countries of that request, such as DE,FR', names, [])
  .option('--json', 'the whole explanation as JSON', false)
  .action(
    async (ref: string, options: Asking & { caller?: string; account?: string; countries: string[] }) => {
      const { url, token, filters, json, caller, account, countries } = options
      const { printExplanation } = await import('./commands/explanation.js')
      await printExplanation({
        config: options.config,
        ref,
        url,
        token,
        caller,
        account,
        filters,
        countries,
        json,
        out,
      })
    },
  )

command('refresh', 'Have a running server read an upstream in full now, whatever its version token says.')
  .argument('<upstream>', 'the id of an upstream')
  .addOption(urlOption("the server's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('an operator key'))
  .action(async (upstream: string, { url, token, ...options }: Common & { url?: string; token?: string }) => {
    const { refreshUpstream } = await import('./commands/operator.js')
    await refreshUpstream({ ...options, upstream, url, token, out })
  })

/** What an operator does to a running server: its command, the action, what it is done to, and the words for it. */
const ACTIONS = [
  [
    'refresh-provider',
    'refresh-provider',
    'domain',
    "Have a running server fetch a provider's file now.",
    'asked',
  ],
  ['exclude', 'exclude-upstream', 'upstream', 'Leave an upstream out of a running feed.', 'left out'],
  ['admit', 'admit-upstream', 'upstream', 'Let an upstream in again that is left out.', 'let in'],
  ['suspend', 'suspend-caller', 'caller', 'Refuse the calls and sessions of a caller.', 'suspended'],
  ['resume', 'resume-caller', 'caller', 'Serve a suspended caller again.', 'resumed'],
  ['retry', 'retry-job', 'job', 'Have a running server try an open job again now.', 'tried again'],
  ['give-up', 'give-up-job', 'job', 'End an open job of a running server undone.', 'given up'],
] as const

const SUBJECTS = {
  domain: 'the domain of a data provider',
  upstream: 'the id of the upstream, or its url',
  caller: 'the id of the caller',
  job: 'the id of the job',
} as const

for (const [name, action, subject, description, done] of ACTIONS) {
  command(name, description)
    .argument(`<${subject}>`, SUBJECTS[subject])
    .addOption(urlOption("the server's address (default: where the configuration's server listens)"))
    .addOption(tokenOption('an operator key'))
    .action(async (given: string, { url, token, ...options }: Common & { url?: string; token?: string }) => {
      const { actOnServer } = await import('./commands/operator.js')
      await actOnServer({ ...options, action, subject: given, done, url, token, out })
    })
}

command('jobs', 'List the open jobs of a running server, those that failed most often first.')
  .addOption(urlOption("the server's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('an operator key'))
  .option('--json', 'one JSON line a job', false)
  .action(
    async ({ url, token, json, ...options }: Common & { url?: string; token?: string; json: boolean }) => {
      const { printJobs } = await import('./commands/operator.js')
      await printJobs({ ...options, url, token, json, out })
    },
  )

command('audit', 'List what operators did to a running server, newest first.')
  .addOption(urlOption("the server's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('an operator key'))
  .option('--json', 'one JSON line an entry', false)
  .action(
    async ({ url, token, json, ...options }: Common & { url?: string; token?: string; json: boolean }) => {
      const { printAudit } = await import('./commands/operator.js')
      await printAudit({ ...options, url, token, json, out })
    },
  )

command('ask', 'Ask a running agent for signals in plain words.')
  .argument('<words...>', 'whom you want to reach')
  .addOption(urlOption("the agent's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('a bearer key'))
  .option('-n, --limit <n>', 'signals shown', wholeNumber(1, 100), 10)
  .option('--json', 'one JSON line a signal', false)
  .action(async (words: string[], { url, token, limit, json, ...options }: Asking & { limit: number }) => {
    const { ask } = await import('./commands/buyer.js')
    await ask({ ...options, url, token, words: words.join(' '), limit, json, out, err })
  })

command('activate', 'Activate a signal of a running agent on a destination.')
  .argument('<handle>', 'signal_agent_segment_id of a signal or of one offer')
  .requiredOption('-d, --destination <where>', 'platform:NAME or agent:URL', destination)
  .option('--option <id>', 'the pricing option')
  .option('--account <id>', 'the account it is for')
  .option('--key <key>', 'the idempotency key (default: a new one); the standard error says it first')
  .option('--deactivate', 'switch it off instead', false)
  .addOption(urlOption("the agent's address (default: where the configuration's server listens)"))
  .addOption(tokenOption('a bearer key'))
  .option('--json', 'the whole answer as JSON', false)
  .action(async (handle: string, options: Asking & Activating) => {
    const { config, url, token, json, option, account, key, deactivate, destination: where } = options
    const asked = { handle, destination: where, option, account, key, deactivate }
    const { activate } = await import('./commands/buyer.js')
    await activate({ config, url, token, ...asked, json, out, err })
  })

program
  .command('mirror')
  .description('Keep a copy of a wholesale feed, of this or any other agent, in a folder or a database.')
  .requiredOption('-u, --url <url>', "the agent's address; /mcp is added where it has no path", httpUrl)
  .requiredOption('-o, --out <place>', 'a folder, or postgres://...', copyPlace)
  .addOption(tokenOption('a bearer key'))
  .option(
    '--format <format>',
    'what is kept in the folder: ndjson or sqlite',
    oneOf(['ndjson', 'sqlite']),
    'ndjson',
  )
  .option('-f, --filters <json>', 'filters of get_signals as a JSON object', jsonObject)
  .option('--account <id>', 'the account that it is read for')
  .addOption(
    new Option('--every <time>', 'how often it is asked whether it changed (30s, 5m)')
      .argParser(duration)
      .default(duration('1m'), '1m'),
  )
  .option('--once', 'read once and end', false)
  .option(
    '--listen <url>',
    'be told what changes: the https url at which the agent reaches this mirror',
    httpsUrl,
  )
  .option('--port <port>', 'where what is posted to that url comes in', wholeNumber(0, 65_535), 8090)
  .option('--host <host>', 'the address to listen on', '127.0.0.1')
  .option(
    '--brand <domain>',
    'for whom an account is declared, without --account (default: the host of --listen)',
  )
  .option('--allow-networks <cidr...>', "non-public networks in which the agent's keys may be")
  .action(async ({ every: everyMs, listen, host, port, brand, allowNetworks, ...options }: Mirroring) => {
    const { mirrorFeed } = await import('./commands/buyer.js')
    const told = listen && {
      listen: { url: listen, host, port, brand },
      egress: { ...(allowNetworks && { allowNetworks }) },
    }
    await mirrorFeed({ ...options, ...told, everyMs, stdout: out, stderr: err })
  })

program
  .command('key')
  .description("Make a caller's key, and its digest for callers.keys[].token_sha256.")
  .option('--stdin', 'take the key that is written to the standard input', false)
  .option('--json', 'as JSON', false)
  .action(async ({ stdin: given, json }: { stdin: boolean; json: boolean }) => {
    const { printKey } = await import('./commands/operator.js')
    await printKey({ given, json, input: process.stdin, out })
  })

command('check', 'Ask every registry, upstream and provider once and say what would be federated.')
  .option(
    '--upstream <id>',
    'look at one upstream closely: what it is sent, argument by argument, and what it gives',
  )
  .option('--json', 'the report as JSON', false)
  .action(async ({ json, upstream, ...options }: Common & { json: boolean; upstream?: string }) => {
    const config = await configOf(options)
    const { printCheck } = await import('./commands/check.js')
    await printCheck({ config, json, upstream, clock: systemClock, random: Math.random, out, err })
  })

command('authz', "Show a provider's adagents.json as it is read, and who may sell what by it.")
  .argument('<domain>', 'the domain of a data provider')
  .option('--agent <url>', 'an agent to look at besides those that the file lists')
  .option('--ids <list>', 'print an entry that grants the agent these signals', names)
  .option('--tags <list>', 'print an entry that grants the agent the signals with these tags', names)
  .option('--json', 'the report as JSON', false)
  .action(
    async (
      domain: string,
      options: Common & { agent?: string; ids?: string[]; tags?: string[]; json: boolean },
    ) => {
      const { agent, ids, tags, json } = options
      const config = await configOf(options)
      const grant = ids ? { ids } : tags && { tags }
      const { printAuthorization } = await import('./commands/check.js')
      await printAuthorization({ config, domain, agent, grant, json, clock: systemClock, out, err })
    },
  )

command('ledger', 'List what was activated and deactivated, newest first.')
  .option('--caller <id>', 'of this caller')
  .option('--upstream <id>', 'at this upstream')
  .option('--handle <handle>', 'of this signal or offer')
  .option('--action <action>', 'activate or deactivate', oneOf(['activate', 'deactivate']))
  .option('--outcome <outcome>', 'with this outcome', oneOf(OUTCOMES))
  .option('--since <moment>', 'from this date or age (24h, 7d) on', moment(Date.now))
  .option('--until <moment>', 'before this date or age', moment(Date.now))
  .option('-n, --limit <n>', 'entries shown (default: 50, or all with --json)', wholeNumber(1, 1_000_000))
  .option('--json', 'one JSON line an entry', false)
  .action(
    async ({
      config: file,
      limit,
      json,
      ...filter
    }: Common & LedgerFilter & { limit: number | undefined; json: boolean }) => {
      const config = await configOf({ config: file })
      const { printLedger } = await import('./commands/storage.js')
      await printLedger({ config, filter, limit, json, out, err, now: Date.now })
    },
  )

command('move-storage', 'Copy all durable state to another storage, while no server runs.')
  .requiredOption('--to <url>', 'file:FOLDER or postgres://...; it must be empty')
  .option('--json', 'the counts as JSON', false)
  .action(async ({ to, json, ...options }: Common & { to: string; json: boolean }) => {
    const config = await configOf(options)
    const { moveStorage } = await import('./commands/storage.js')
    await moveStorage({ config, to, json, out, err, now: Date.now })
  })

/** What a failure says and how the process ends; a bug keeps its stack, for it is ours to read. */
function report(error: unknown): number {
  if (error instanceof ConfigError) {
    process.stderr.write(`${error.message}\n`)
    return EXIT.config
  }
  if (error instanceof CommandFailure) {
    process.stderr.write(`tributary: ${error.message}\n`)
    return error.exitCode
  }
  if (error instanceof Error && 'code' in error && String(error.code).startsWith('commander.')) {
    return (error as { exitCode?: number }).exitCode === 0 ? 0 : EXIT.usage
  }
  process.stderr.write(`tributary: ${error instanceof Error ? error.stack : String(error)}\n`)
  return EXIT.failed
}

program.parseAsync().catch((error) => {
  process.exitCode = report(error)
})
