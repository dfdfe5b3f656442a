/** A real feed over listings that the test names: slices, verdicts and layers as the product builds them. */
import { hash } from 'node:crypto'
import type { Destination } from '../../src/adcp/signal.js'
import type { Judge } from '../../src/authz/rules/verdict.js'
import { createFeed } from '../../src/feed/feed.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { createSlabWriter } from '../../src/upstreams/rows/slab.js'
import type { Listing, Slice } from '../../src/upstreams/rows/slice.js'

/** Everything is authorized: what is published is the tests' of other rooms. */
export const judge: Judge = () => ({
  stamp: '',
  policy: 'strict',
  decide: () => ({ outcome: 'authorized', entries: [0] }),
  definition: () => undefined,
})

export function sliceOf(upstream: string, listings: readonly Listing[], scope = 'public'): Slice {
  const writer = createSlabWriter()
  const digests = new BigUint64Array(listings.length)
  listings.forEach((listing, row) => {
    const bytes = Buffer.from(JSON.stringify(listing))
    writer.append(bytes)
    digests[row] = hash('sha256', bytes, 'buffer').readBigUInt64LE(0)
  })
  const agentUrl = `https://${upstream}.example/mcp`
  return {
    upstream,
    agentUrl,
    scope,
    mode: 'wholesale',
    rows: writer.finish(),
    digests,
    dropped: {},
    walkedAt: 0,
  }
}

export function listing(id: string, cpm = 1.5, deployments: Listing['deployments'] = []): Listing {
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: id },
    signal_agent_segment_id: `seg_${id}`,
    name: `Signal "${id}" \\ ünï ☃`,
    description: `What ${id} means`,
    signal_type: 'marketplace',
    data_provider: 'Provider',
    deployments: [{ type: 'platform', platform: 'dsp', is_live: false }, ...deployments],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
  }
}

/** A deployment that is live, and the key that only its own readers may see. */
export function live(platform: string, segment: string): Listing['deployments'][number] {
  return {
    type: 'platform',
    platform,
    is_live: true,
    activation_key: { type: 'segment_id', segment_id: segment },
  }
}

export const platform = (name: string): Destination => ({ type: 'platform', platform: name })

export type FeedContent = {
  listings: readonly Listing[]
  /** Layer name -> what that account is offered in place of the public listings. */
  overlays?: Readonly<Record<string, readonly Listing[]>>
}

/** Building is most of what a feed costs, and nobody changes a snapshot: the same array of listings is built once. */
const built = new WeakMap<readonly Listing[], Snapshot>()

function snapshotOf(listings: readonly Listing[]): Snapshot {
  const snapshot = built.get(listings) ?? buildSnapshot({ slices: [sliceOf('northwind', listings)], judge })
  built.set(listings, snapshot)
  return snapshot
}

/** A feed with its layers published; `publish` moves it on. */
export function feedOf(content: FeedContent) {
  const feed = createFeed({ cursorSecret: 'a secret of the tests', retain: { ms: 60_000, bytes: 2 ** 30 } })

  function publish({ listings, overlays = {} }: FeedContent, now: number): void {
    const open = snapshotOf(listings)
    const accounts = Object.entries(overlays).map(([layer, own]) => {
      const slices = [sliceOf('northwind', own, layer)]
      return [layer, { snapshot: buildSnapshot({ previous: open, slices, judge }), gaps: [] }] as const
    })
    feed.publish(open, now, { accounts: new Map(accounts) })
  }

  publish(content, 0)
  return { ...feed, publishContent: publish }
}

const plain = new Map<number, readonly Listing[]>()

/** `count` plain signals, `s0` and on. */
export function plainFeed(count: number) {
  const listings = plain.get(count) ?? Array.from({ length: count }, (_, n) => listing(`s${n}`))
  plain.set(count, listings)
  return feedOf({ listings })
}
