/**
 * The files that pointers lead to, each held once however many providers point to it: a network's publishers all
 * share one file, and one request (docs/protocol.md#provider-files).
 */

import type { HeldDocument } from '../rules/state.js'
import { type FileOptions, type FileOutcome, getAuthoritative } from './file.js'

const FAILED_FRESH_MS = 1_000 // enough that a crowd asks once, short enough that recovery is seen

export type LibraryOptions = FileOptions & {
  /** For how long one answer serves every provider that points there, ms. */
  freshMs: number
}

export type TargetOutcome = Exclude<FileOutcome, { kind: 'pointer' } | { kind: 'unchanged' }>

type Shelf = {
  document?: HeldDocument
  asking?: Promise<TargetOutcome>
  answer?: { outcome: TargetOutcome; at: number }
}

export type Library = ReturnType<typeof createLibrary>

export function createLibrary(options: LibraryOptions) {
  const shelves = new Map<string, Shelf>()

  function shelfOf(url: string): Shelf {
    const shelf = shelves.get(url) ?? {}
    shelves.set(url, shelf)
    return shelf
  }

  async function ask(url: string, shelf: Shelf): Promise<TargetOutcome> {
    const outcome = await getAuthoritative(options, url, shelf.document)
    if (outcome.kind === 'unchanged' && shelf.document) return { kind: 'document', document: shelf.document }
    if (outcome.kind === 'document') shelf.document = outcome.document
    else if (outcome.kind === 'failed' && !outcome.passing) delete shelf.document
    return outcome as TargetOutcome
  }

  /** The file at `url`. `anew` asks the server even when a recent answer is at hand. */
  function get(url: string, anew: boolean): Promise<TargetOutcome> {
    const shelf = shelfOf(url)
    if (shelf.asking) return shelf.asking
    const { answer } = shelf
    const freshMs = answer?.outcome.kind === 'failed' ? FAILED_FRESH_MS : options.freshMs
    if (!anew && answer && options.now() < answer.at + freshMs) return Promise.resolve(answer.outcome)
    shelf.asking = ask(url, shelf)
      .then((outcome) => {
        shelf.answer = { outcome, at: options.now() }
        return outcome
      })
      .finally(() => delete shelf.asking)
    return shelf.asking
  }

  /** Puts a document from an earlier run in its place, so that it can be confirmed instead of fetched. */
  function restore(url: string, document: HeldDocument): HeldDocument {
    const shelf = shelfOf(url)
    if (shelf.document?.digest !== document.digest) shelf.document ??= document
    return shelf.document?.digest === document.digest ? shelf.document : document
  }

  /** Lets go of a document, wherever it lies: who asks next is given what is fetched then. */
  function drop(digest: string): void {
    for (const [url, { document }] of shelves) if (document?.digest === digest) shelves.delete(url)
  }

  /** Forgets every file that nobody points to any more. */
  function retain(urls: ReadonlySet<string>): void {
    for (const url of shelves.keys()) if (!urls.has(url)) shelves.delete(url)
  }

  return { get, restore, drop, retain }
}
