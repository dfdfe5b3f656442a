import type { ProviderState } from '../rules/state.js'

export type ProviderLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** One line in the log for each change of what is held of a provider. */
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
