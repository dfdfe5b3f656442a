/**
 * The files that pointers lead to. However many providers point to a file, it is held once and fetched once: all
 * publishers of a network may share one (docs/protocol.md#provider-files).
 */

import type { HeldDocument } from '../rules/state.js'
import { type FileOptions, type FileOutcome, getAuthoritative } from './file.js'

const FAILED_FRESH_MS = 1_000 // long enough that many providers cause one request, short enough that a recovery is soon seen

type LibraryOptions = FileOptions & {
  /** How long one answer serves every provider that points there, ms. */
  freshMs: number
}

type TargetOutcome = Exclude<FileOutcome, { kind: 'pointer' } | { kind: 'unchanged' }>

type SharedFile = {
  document?: HeldDocument
  asking?: Promise<TargetOutcome>
  answer?: { outcome: TargetOutcome; at: number }
}

export type Library = ReturnType<typeof createLibrary>

/** Empty; `restore` gives it the documents of an earlier run. */
export function createLibrary(options: LibraryOptions) {
  const files = new Map<string, SharedFile>()

  function fileOf(url: string): SharedFile {
    const file = files.get(url) ?? {}
    files.set(url, file)
    return file
  }

  async function ask(url: string, file: SharedFile): Promise<TargetOutcome> {
    const outcome = await getAuthoritative(options, url, file.document)
    if (outcome.kind === 'unchanged' && file.document) return { kind: 'document', document: file.document }
    if (outcome.kind === 'document') file.document = outcome.document
    else if (outcome.kind === 'failed' && !outcome.passing) delete file.document
    return outcome as TargetOutcome
  }

  /** The file at `url`. With `anew` the server is asked even when it answered recently. */
  function get(url: string, anew: boolean): Promise<TargetOutcome> {
    const file = fileOf(url)
    if (file.asking) return file.asking
    const { answer } = file
    const freshMs = answer?.outcome.kind === 'failed' ? FAILED_FRESH_MS : options.freshMs
    if (!anew && answer && options.now() < answer.at + freshMs) return Promise.resolve(answer.outcome)
    file.asking = ask(url, file)
      .then((outcome) => {
        file.answer = { outcome, at: options.now() }
        return outcome
      })
      .finally(() => delete file.asking)
    return file.asking
  }

  /** Restores a document of an earlier run, so that it can be confirmed and need not be fetched. */
  function restore(url: string, document: HeldDocument): HeldDocument {
    const file = fileOf(url)
    if (file.document?.digest !== document.digest) file.document ??= document
    return file.document?.digest === document.digest ? file.document : document
  }

  /** Drops a document wherever it is held: the next request fetches it. */
  function drop(digest: string): void {
    for (const [url, { document }] of files) if (document?.digest === digest) files.delete(url)
  }

  /** Drops every file that no provider points to any more. */
  function retain(urls: ReadonlySet<string>): void {
    for (const url of files.keys()) if (!urls.has(url)) files.delete(url)
  }

  return { get, restore, drop, retain }
}
