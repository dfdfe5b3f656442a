/** Listening to upstreams that tell what changes, where the configuration names a place at which they reach us. */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Config } from '../config/values.js'
import { createListener, type HeardOutcome, type Listener, type Teller } from '../events/listener.js'
import { createSenderKeys } from '../events/sender-keys.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { createReplayGuard, type SharedNonces } from '../signing/replay.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import { upstreamsSettings } from './settings.js'

type FeedListenerOptions = {
  config(): Config
  upstreams: Upstreams
  send: Send
  clock: Clock
  log: Logger
  secret: Uint8Array
  /** Absent: there is no other process. */
  sharedNonces?: SharedNonces
  onOutcome(outcome: HeardOutcome, gainedMs?: number): void
}

/** Undefined where upstreams are not told how to reach us (`events.public_url`). */
export function createFeedListener(options: FeedListenerOptions): Listener | undefined {
  const { config, upstreams, send, clock, log, secret, sharedNonces, onOutcome } = options
  const { publicUrl } = config().events
  if (publicUrl === undefined) return undefined
  const keyOf = createSenderKeys({ send, now: clock.now })

  function tellers(): Teller[] {
    return upstreams.statuses().flatMap(({ id, agentUrl }): Teller[] => {
      const told = upstreams.dialectOf(id)?.feedEvents
      return told ? [{ id, agentUrl, ...told }] : []
    })
  }

  return createListener({
    ...{ tellers, keyOf, publicUrl, secret, clock, onOutcome, newId: randomUUID },
    async syncAccounts(id, args, deadline) {
      const outcome = await upstreams.call(id, 'sync_accounts', args as Record<string, unknown>, { deadline })
      if (outcome.kind === 'answer') return outcome.payload
      return outcome.kind === 'error' ? outcome.error.code : outcome.reason
    },
    heard: upstreams.heard,
    account: () => upstreamsSettings(config()).account,
    replay: createReplayGuard({ now: clock.now, ...(sharedNonces && { shared: sharedNonces }) }),
    onProblem: (problem) => log.warn({ problem }, 'events'),
  })
}
