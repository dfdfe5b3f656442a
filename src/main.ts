#!/usr/bin/env node
/** The command line. Each command is a file in `commands/`; this one reads arguments and turns failures into exit codes. */
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command, InvalidArgumentError } from 'commander'
import { CommandFailure, EXIT } from './commands/failure.js'
import { printFeed } from './commands/feed.js'
import { serve } from './commands/serve.js'
import { loadConfig } from './config.js'
import { ConfigError } from './config-problem.js'
import type { Config } from './config-values.js'

const SANDBOX_CONFIG = resolve(dirname(fileURLToPath(import.meta.url)), '../../config/sandbox.yaml')
const MAX_SANDBOX_SIGNALS = 1_000_000

type Common = { config: string }

function wholeNumber(minimum: number, maximum: number) {
  return (text: string): number => {
    const number = Number(text)
    if (Number.isInteger(number) && number >= minimum && number <= maximum) return number
    throw new InvalidArgumentError(`expected a whole number from ${minimum} to ${maximum}`)
  }
}

function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (value && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // said below, with what was expected
  }
  throw new InvalidArgumentError('expected a JSON object such as {"catalog_types":["marketplace"]}')
}

const configOf = (options: Common): Promise<Config> => loadConfig(options.config, process.env)

const program = new Command('tributary')
  .description(
    'A federating signals agent: many signals agents in, one verified, versioned wholesale feed out.',
  )
  .showHelpAfterError('(tributary --help lists the commands, tributary COMMAND --help their options)')
  .exitOverride()

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
    wholeNumber(1, MAX_SANDBOX_SIGNALS),
  )
  .action(async (options: Common & { sandboxSignals?: number }) => {
    await serve({ config: options.config, sandboxSignals: options.sandboxSignals })
  })

command('feed', 'Walk a running feed page by page and print it.')
  .option('-u, --url <url>', "the feed's MCP address (default: where the configuration's server listens)")
  .option(
    '-t, --token <token>',
    'a bearer key; without one the walk is anonymous',
    process.env.TRIBUTARY_TOKEN,
  )
  .option('-f, --filters <json>', 'filters of get_signals as a JSON object', jsonObject)
  .option('-n, --limit <n>', 'rows the table shows', wholeNumber(0, 1_000_000), 20)
  .option('--json', 'one JSON line a signal, all of them', false)
  .action(
    async (
      options: Common & {
        url?: string
        token?: string
        filters?: Record<string, unknown>
        limit: number
        json: boolean
      },
    ) => {
      await printFeed({
        config: await configOf(options),
        url: options.url,
        token: options.token,
        filters: options.filters,
        limit: options.limit,
        json: options.json,
        out: process.stdout,
        err: process.stderr,
        now: Date.now,
      })
    },
  )

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

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = report(error)
}
