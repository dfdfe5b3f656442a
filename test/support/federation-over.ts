/** A whole Tributary over agents that a test brings, with one buyer who may see the keys of one platform. */
import { hash, randomUUID } from 'node:crypto'
import { pino } from 'pino'
import type { Test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { openStore, type Store } from '../../src/store/store.js'
import { callTool } from './call-tool.js'
import { temporaryFolder } from './temporary-folder.js'

export const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }
export const BUYER = 'a-buyer-key'
export const OPERATOR = 'an-operator-key'

// biome-ignore lint/suspicious/noExplicitAny: answers of every task are read
export type Said = Record<string, any>

/** What activate_signal is asked with for a signal of a page: at the trade desk, for its first price. */
export const activationOf = (
  { signal_agent_segment_id, pricing_options }: Said,
  key = `key-${randomUUID()}`,
) => ({
  ...{ idempotency_key: key, destinations: [TRADE_DESK], signal_agent_segment_id },
  pricing_option_id: pricing_options[0].pricing_option_id,
})

/** `upstreams` as in a configuration. */
export async function startOver(t: Pick<Test, 'teardown'>, upstreams: readonly object[], more: object = {}) {
  const folder = await temporaryFolder(t)
  const storage = { url: `file:${folder}`, key: 'a storage key of the tests, long enough' }
  const config = {
    listen: { port: 0 },
    upstreams,
    authorization: { policy: 'observe' }, // nobody publishes a file about their signals
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex'), destinations: [TRADE_DESK] },
        { id: 'operator', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
      ],
    },
    storage,
    ...more,
  }
  const parsed = (other: object = {}) => parseConfig('test', JSON.stringify({ ...config, ...other }), {})
  const start = async (other: object = {}) => {
    const federation = await startFederation({
      config: parsed(other),
      version: '0.0.0',
      clock: systemClock,
      random: Math.random,
      postThrough: (post) => (letter, isWanted) => post({ ...letter, timeoutMs: 120_000 }, isWanted), // it is not a receiver that hangs
      openAfterMs: 60_000, // a busy machine opens with all that there is, too
      log: pino({ level: 'silent' }),
    })
    await federation.ready
    return federation
  }
  let federation = await start()
  t.teardown(() => federation.close())

  const call = (task: string, input: object, token: string | undefined = BUYER): Promise<Said> =>
    callTool(federation.url, task, input, token)

  return {
    call,
    /** Its storage, as another process reads it meanwhile. */
    async stored(): Promise<Store> {
      const { url, key } = storage
      const store = await openStore({
        ...{ url, keys: [key], whileInUse: true, now: Date.now },
        onProblem: (problem) => {
          throw new Error(problem)
        },
      })
      t.teardown(() => store.close())
      return store
    },
    /** What GET /explain says to the operator. */
    async explain(ref: string): Promise<Said> {
      const headers = { authorization: `Bearer ${OPERATOR}` }
      const response = await fetch(`${federation.url}/explain?ref=${encodeURIComponent(ref)}`, { headers })
      return (await response.json()) as Said
    },
    /** As the operator. */
    get: (path: string) =>
      fetch(`${federation.url}${path}`, { headers: { authorization: `Bearer ${OPERATOR}` } }),
    post: (path: string, token: string = OPERATOR) =>
      fetch(`${federation.url}${path}`, { method: 'POST', headers: { authorization: `Bearer ${token}` } }),
    get federation() {
      return federation
    },
    /** Follows a configuration that differs from the first one in so much. */
    reload: (other: object) => federation.apply(parsed(other)),
    /** With the first configuration, or one that differs in so much. */
    async restart(other: object = {}) {
      await federation.close()
      federation = await start(other)
    },
    wholesale: (input: object = {}, token?: string) =>
      call('get_signals', { adcp_version: '3.1', discovery_mode: 'wholesale', ...input }, token),
  }
}
