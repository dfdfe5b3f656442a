/**
 * One look at a provider: it reads the well-known file, the pointer in it, and the file that the pointer names; the steps of
 * authz/provider/record.ts say what the answers mean for what is remembered of the provider.
 */
import { wellKnownUrl } from './domains.js'
import { type FileOptions, getWellKnown, type Library } from './files.js'
import {
  expired,
  failing,
  holding,
  onHold,
  type ProviderRecord,
  pointed,
  received,
  withdrawn,
} from './record.js'

type LookOptions = {
  files: FileOptions
  library: Library
  confirmPointer?: (domain: string, url: string) => boolean
}

export function createLook({ files, library, confirmPointer }: LookOptions) {
  /** The record after its pointer was read, and after the pointer's target was, when the pointer may be followed. */
  async function follow(record: ProviderRecord, location: string, anew: boolean): Promise<ProviderRecord> {
    const { domain } = record
    const confirmed = confirmPointer?.(domain, location) === true
    const next = pointed(record, location, files.now(), confirmed)
    const kept = next.follow ? location : record.document && record.adopted?.location
    if (kept === undefined) return holding(next.record, files.now())
    const outcome = await library.get(kept, anew)
    if (outcome.kind === 'document') return received(next.record, outcome.document, kept, files.now())
    // While a new pointer is on hold the old file is kept: its absence at the old place ends nothing yet.
    return next.follow ? failing(next.record, outcome, files.now()) : holding(next.record, files.now())
  }

  /**
   * Looks at a provider and returns its next record. With `anew` a shared file is fetched even when it was fetched just
   * now.
   */
  async function look(before: ProviderRecord, anew: boolean): Promise<ProviderRecord> {
    const { domain, front } = before
    const inline = before.adopted?.location === undefined ? before.document : undefined
    const outcome = await getWellKnown(files, domain, wellKnownUrl(domain), front ?? inline)
    const record = expired(before, files.now())
    if (outcome.kind === 'failed') return failing(withdrawn(record, outcome), outcome, files.now())
    if (outcome.kind === 'pointer') {
      const { target, answered } = outcome
      return follow({ ...record, front: { ...answered, target } }, target, anew)
    }
    if (outcome.kind === 'unchanged' && front) return follow(record, front.target, anew)
    const document = outcome.kind === 'document' ? outcome.document : inline
    const { front: past, ...unpointed } = pointed(record, undefined, files.now(), false).record
    if (!document) throw new Error(`${domain}: "unchanged" was believed of a file that is not held`)
    return received(unpointed, document, undefined, files.now())
  }

  /** Whether its pointer is on hold although the operator has confirmed it. */
  function isConfirmed(record: ProviderRecord): boolean {
    const pointer = onHold(record)
    return pointer !== undefined && confirmPointer?.(record.domain, pointer.url) === true
  }

  return { look, isConfirmed }
}
