/** Every answer to "why": one word for machines and metrics, one sentence for people (docs/explain.md lists them). */
export const WHY = {
  present: 'it is in the feed',
  hidden_from_caller: 'it is in the feed, but this caller may read nothing here',
  filtered_out: 'it is in the feed, but the filters, destinations or countries of this request leave it out',
  not_authorized: 'no offer of it may be published under the policy in force: each offer says why',
  no_country_left: 'provider, grant and row together allow no country',
  outranked: "that upstream's offer gives way: an authorized offer of the same signal is there",
  offer_unknown: 'the signal is in the feed, but no upstream of this handle offers it',
  refused_row: 'the upstream sends a row for it that cannot be kept',
  withdrawn: 'the upstream that offered it does not list it any more',
  not_offered: 'its provider publishes it, but no upstream that is read offers it',
  upstream_excluded: 'the upstream that may offer it is kept out of the roster',
  upstream_left: 'the upstream that offered it has left the roster',
  upstream_absent: 'the upstream that may offer it gives no rows now',
  upstream_starting: 'the upstream that may offer it has not been read yet',
  nothing_published: 'the upstream is read, but none of its rows may be published',
  starting: 'the first snapshot is still being built',
  unknown: 'nothing that is read now, and nothing seen since the start, goes by this name',
} as const

export type Why = keyof typeof WHY
