import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SOURCES } from './graph.js'

const ORDER = [
  'adcp',
  'process',
  'net',
  'signing',
  'upstreams',
  'authz',
  'merge',
  'snapshot',
  'feed',
  'search',
  'store',
  'config',
  'activation',
  'events',
  'mirror',
  'briefs',
  'tasks',
  'server',
  'console',
  'explain',
  'operations',
  'composition',
  'commands',
  'main',
]

/** Every room of `src`, from those that import nothing to the command line: a room imports only rooms before it. */
export const ROOMS: readonly string[] = ORDER.filter(
  (room) => room === 'main' || existsSync(join(SOURCES, room)),
)
