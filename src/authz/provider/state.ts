/** How a provider stands: what other threads and people see of its record, and what the log says when that changes. */
import { expiryOf, POINTER_HOLD_MS, type ProviderState, VERDICT_REASONS } from '../rules/verdict.js'
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

export type WhySkipped = 'bad_domain' | 'too_many_domains'

/** The state of a domain that upstreams name but that is not looked at. */
export function skippedState(domain: string, reason: WhySkipped, since: number): ProviderState {
  return { domain, problem: { reason, message: VERDICT_REASONS[reason], since, passing: false } }
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
