/**
 * Exact lookup: the named signals in the order of the request, from the feed and from earlier answers; a missing or filtered
 * signal is left out without an error (specification, "Operation by combination of `signal_spec` and `signal_refs`"). What is
 * known from earlier answers is shown as it stands (`standing.ts`), so it shows nothing that the feed would withhold now.
 */
import { type AdcpWarning, firstOf, type Refused } from '../adcp/answer.js'
import type { SignalRef } from '../adcp/signal.js'
import { cursorOf, type GetSignalsRequest, refsOf, selectionOf } from '../adcp/signal-requests.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Feed } from '../feed/feed.js'
import { entryOfRef } from '../feed/find-signal.js'
import type { Reader } from '../feed/query.js'
import { identityKey, signalHandle } from '../merge/identity.js'
import type { FoundRow } from '../store/records/found.js'
import { type AnswerPage, type AnswerPages, NOT_READY } from './answer-pages.js'
import { anchorsOf, createGate } from './corpus.js'
import type { WhatStands } from './standing.js'

const MOST_NAMED = 10 // references in one sentence

type LookupOptions = {
  feed: Pick<Feed, 'moment' | 'see'>
  pages: AnswerPages
  /** Rows of earlier answers that the feed does not have. */
  rowsOf(handles: readonly string[], reader: Reader): Promise<readonly FoundRow[]>
  standing: Pick<WhatStands, 'corpusOf'>
}

/** The handles that a reference may stand for (docs/decisions.md#identity, as feed/find-signal.ts reads references). */
function handlesOf(ref: SignalRef): string[] {
  if (ref.scope === 'product') return []
  if (ref.scope === 'data_provider') {
    const { data_provider_domain: domain, signal_id: id } = ref
    return [signalHandle(identityKey({ kind: 'provider', domain, id }))]
  }
  const agentUrl = canonicalUrl(ref.signal_source_url)
  if (agentUrl === undefined) return []
  // A row without any id of its own is referred to by our handle.
  return [signalHandle(identityKey({ kind: 'source', agentUrl, id: ref.signal_id })), ref.signal_id]
}

/** Names the references that found nothing, by index. Missing and filtered signals look the same. */
function missingWarnings(
  refs: readonly SignalRef[],
  isMissing: (ref: SignalRef) => boolean,
  { signal_refs: current = [] }: GetSignalsRequest,
): AdcpWarning[] {
  const fieldAt = (at: number) =>
    at < current.length ? `signal_refs[${at}]` : `signal_ids[${at - current.length}]`
  const places = refs.flatMap((ref, at) => (isMissing(ref) ? [fieldAt(at)] : []))
  const [first] = places
  if (first === undefined) return []
  return [
    {
      code: 'REFERENCE_NOT_FOUND',
      severity: 'warning',
      message: `Nothing was found for ${firstOf(MOST_NAMED, places)}: not in the feed, or left out by the request.`,
      field: first,
      suggestion:
        'Take references from a current answer of get_signals; filters, destinations and countries hold for them too.',
    },
  ]
}

/** Looks named signals up; what is not found is a warning, never an error. */
export function createLookup({ feed, pages, rowsOf, standing }: LookupOptions) {
  return async function lookup(
    input: GetSignalsRequest,
    reader: Reader,
    at = feed.moment(reader),
  ): Promise<AnswerPage | Refused> {
    const cursor = cursorOf(input)
    if (cursor !== undefined) return pages.further(cursor, input, reader, at)
    const refs = refsOf(input)
    const seen = feed.see(selectionOf(input), reader, { at })
    if (!seen) return NOT_READY
    const elsewhere = refs.filter((ref) => entryOfRef(seen.snapshot, ref) < 0)
    const handles = elsewhere.flatMap(handlesOf)
    const said = handles.length > 0 ? await rowsOf(handles, reader) : []

    const corpus = await standing.corpusOf(seen.snapshot, said, reader)
    const passes = await createGate(corpus, seen.entries, { criteria: seen.criteria, reader })
    const hits = anchorsOf(corpus, refs).filter(passes)
    const page = await pages.first({ corpus, hits, said }, input, reader, at)
    if (page.kind === 'refused') return page
    const isMissing = (ref: SignalRef) => !anchorsOf(corpus, [ref]).some(passes)
    return { ...page, warnings: [...page.warnings, ...missingWarnings(refs, isMissing, input)] }
  }
}

export type Lookup = ReturnType<typeof createLookup>
