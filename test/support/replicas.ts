/** Several Tributaries on one PostgreSQL database, in this process, over agents that a test brings. */
import { hash } from 'node:crypto'
import { pino } from 'pino'
import type { Test } from 'tap'
import { type Federation, startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { shared } from '../store/support/storages.js'
import { callTool } from './call-tool.js'

const TOKEN = 'a-buyer-key'
const LIMIT_MS = 60_000 // a busy machine

// biome-ignore lint/suspicious/noExplicitAny: answers of every task are read
export type Said = Record<string, any>

export type Running = {
  federation: Federation
  call(task: string, input: object): Promise<Said>
  wholesale(input?: object): Promise<Said>
  close(): Promise<void>
}

/** Gives how to start one more; undefined when this machine has no PostgreSQL. All are closed when the test ends. */
export async function replicasOver(t: Test, upstreams: readonly object[], more: object = {}) {
  const storage = await shared(t)
  if (!storage) return undefined
  const config = {
    listen: { port: 0 },
    upstreams,
    defaults: { refresh: '1s' },
    authorization: { policy: 'observe' }, // nobody publishes a file about their signals
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata', keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex') }] },
    storage: { url: storage.url, key: 'a storage key of the tests, long enough' },
    ...more,
  }
  return async function start(): Promise<Running> {
    const federation = await startFederation({
      config: parseConfig('test', JSON.stringify(config), {}),
      version: '0.0.0',
      clock: systemClock,
      random: Math.random,
      openAfterMs: LIMIT_MS,
      log: pino({ level: process.env.TEST_LOG ?? 'silent' }),
    })
    let closing: Promise<void> | undefined
    const close = () => (closing ??= federation.close())
    t.teardown(close)
    await federation.ready
    const call = (task: string, input: object): Promise<Said> => callTool(federation.url, task, input, TOKEN)
    return {
      federation,
      call,
      wholesale: (input = {}) =>
        call('get_signals', { adcp_version: '3.1', discovery_mode: 'wholesale', ...input }),
      close,
    }
  }
}
