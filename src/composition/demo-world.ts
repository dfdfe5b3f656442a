/**
 * The demo world, where a configuration asks for it. It is a workspace of its own (`sandbox/`), reached over loopback HTTP
 * like anybody's agents, loaded only when it is wanted, and no part of the published package.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../config/problem.js'
import type { Config } from '../config/values.js'

/** Signals of the demo world when nothing else is said. */
const SIGNALS = 2_400
const WORLD = new URL('../../sandbox/world.js', import.meta.url)

export type DemoWorld = {
  /** Domains of the demo world and the loopback origins that stand for them, as `egress.hosts` wants them. */
  hosts: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Starts the demo world; undefined when the configuration wants none. Throws a ConfigError where there is none to start. */
export async function openDemoWorld(config: Config, signals = SIGNALS): Promise<DemoWorld | undefined> {
  if (!config.sandbox) return undefined
  if (!existsSync(fileURLToPath(WORLD))) {
    const expected = 'false, or a clone of the repository: the published package holds no demo world'
    throw new ConfigError(config.file, [{ path: 'sandbox', expected, got: 'true' }])
  }
  const { startSandbox } = (await import(WORLD.href)) as typeof import('../../sandbox/world.js')
  return startSandbox({ signals })
}
