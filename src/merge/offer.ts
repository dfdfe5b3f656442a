/** A listing plus its verdict: one way to buy a signal (docs/house.md). */
import type { Verdict } from '../authz/verdict.js'
import type { Listing, SliceMode } from '../upstreams/rows/slice.js'

export type Offer = {
  /** Upstream id, for people; `agentUrl` (canonical) is what identity and order rest on. */
  readonly upstream: string
  readonly agentUrl: string
  readonly mode: SliceMode
  readonly listing: Listing
  readonly verdict: Verdict
}
