/**
 * How a provider stands: what other threads and people see of its record or of the reason why it has none, and what the log says
 * when that changes.
 */
import type { Clock } from '../../net/clock.js'
import { expiryOf, POINTER_HOLD_MS, type ProviderState, VERDICT_REASONS } from '../rules/verdict.js'
import type { Wanted } from './domains.js'
import type { ProviderRecord } from './record.js'

/** `nextAttemptAt`: when it is looked at again, ms. */
export function stateOf(record: ProviderRecord, nextAttemptAt: number | undefined): ProviderState {
  const { domain, document, confirmedAt, pending, problem } = record
  return {
    domain,
    ...(document && confirmedAt !== undefined && { document, confirmedAt }),
    ...(confirmedAt !== undefined && { expiresAt: expiryOf(confirmedAt, problem) }),
    ...(pending && { heldPointer: { ...pending, adoptAt: pending.since + POINTER_HOLD_MS } }),
    ...(problem && { problem }),
    ...(nextAttemptAt !== undefined && { nextAttemptAt }),
  }
}

/** Equal marks mean equal verdicts, as long as no time window opens or closes and no cap passes. */
export function mark({ document, problem, heldPointer }: ProviderState): string {
  const failing = document && problem ? problem.since : ''
  return `${document?.digest ?? problem?.reason} ${document?.url} ${failing} ${heldPointer?.url}`
}

export type ProviderLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Writes one log line for each change of what is held of a provider. */
export function tellChange(log: ProviderLog, before: ProviderState, after: ProviderState): void {
  const { domain, document, problem, heldPointer } = after
  if (heldPointer && heldPointer.url !== before.heldPointer?.url) {
    log.warn(
      { domain, adoptAt: heldPointer.adoptAt },
      'provider changed its pointer: held, the old file stays',
    )
  }
  if (problem && problem.reason !== before.problem?.reason) {
    log.warn({ domain, reason: problem.reason, kept: document !== undefined }, `provider: ${problem.message}`)
  }
  if (document && document.digest !== before.document?.digest) {
    log.info({ domain, bytes: document.bytes.byteLength }, 'provider file in use')
  }
}

type WhySkipped = 'bad_domain' | 'too_many_domains'

function skippedState(domain: string, reason: WhySkipped, since: number): ProviderState {
  return { domain, problem: { reason, message: VERDICT_REASONS[reason], since, passing: false } }
}

/** The domains that upstreams name but that are not looked at, each with the reason. */
export function createSkipped(log: ProviderLog, now: Clock['now']) {
  let skipped: ReadonlyMap<string, ProviderState> = new Map()
  let refusing = false

  return {
    states: () => skipped.values(),
    state: (domain: string) => skipped.get(domain),
    /** One that was skipped before, for the same reason, keeps its state. `limit`: the share of one upstream. */
    set({ bad, refused }: Pick<Wanted, 'bad' | 'refused'>, limit: number): void {
      const since = now()
      const entryOf = (domain: string, reason: WhySkipped): [string, ProviderState] => {
        const known = skipped.get(domain)
        return [domain, known?.problem?.reason === reason ? known : skippedState(domain, reason, since)]
      }
      skipped = new Map([
        ...[...bad].map((domain) => entryOf(domain, 'bad_domain')),
        ...[...refused].map((domain) => entryOf(domain, 'too_many_domains')),
      ])
      if (refused.size > 0 !== refusing) {
        log.warn({ refused: refused.size, limit }, 'domains beyond the share of their upstreams')
      }
      refusing = refused.size > 0
    },
  }
}
