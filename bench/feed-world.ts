/** A synthetic world of about 1.2 KB a listing, for the benches of the feed. */
import type { SignalDefinition } from '../src/authz/rules/provider-definition.js'
import type { Judge } from '../src/authz/rules/verdict.js'
import { readRows } from '../src/upstreams/rows/read-rows.js'
import { createSlabWriter } from '../src/upstreams/rows/slab.js'
import type { Listing, Slice } from '../src/upstreams/rows/slice.js'

const PLATFORMS = ['the-trade-desk', 'dv360', 'xandr', 'amazon-dsp', 'yahoo-dsp', 'index-exchange']
const WORDS =
  'likely buyers of electric vehicles who compared models dealers and financing within thirty days '

/** Listing `n`; `price` changes nothing but its price. */
export function benchListing(n: number, price = n % 40): Listing {
  const domain = `provider-${n % 50}.example`
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id: `signal_${n}` },
    signal_id: { source: 'catalog', data_provider_domain: domain, id: `signal_${n}` },
    signal_agent_segment_id: `segment-${n}-of-the-upstream`,
    name: `Signal number ${n}`,
    description: `${WORDS.repeat(2)}(${n})`,
    value_type: 'binary',
    signal_type: n % 3 === 0 ? 'owned' : 'marketplace',
    data_provider: `Provider ${n % 50}`,
    coverage_percentage: n % 100,
    deployments: [
      { type: 'platform', platform: PLATFORMS[n % 6] as string, is_live: n % 2 === 0 },
      {
        type: 'agent',
        agent_url: 'https://sales.example/mcp',
        is_live: false,
        estimated_activation_duration_minutes: 60,
      },
    ],
    pricing_options: [
      { pricing_option_id: 'cpm', model: 'cpm', cpm: price + 0.5, currency: 'USD' },
      { pricing_option_id: 'media', model: 'percent_of_media', percent: 12, max_cpm: 4, currency: 'USD' },
    ],
    data_sources: ['web_usage', 'app_usage'],
    methodology: 'observed',
    countries: ['DE', 'FR', 'US'],
  }
}

/** Rows of an answer. */
export const PAGE = 100

/** One slice of the listings with these numbers, as a first walk leaves it; with other prices as a later one does. */
export function benchSlice(
  upstream: number,
  numbers: Iterable<number>,
  price?: (n: number) => number,
): Slice {
  const writer = createSlabWriter()
  const digests: bigint[] = []
  const all = [...numbers]
  for (let at = 0; at < all.length; at += PAGE) {
    const listings = all.slice(at, at + PAGE).map((n) => JSON.stringify(benchListing(n, price?.(n))))
    const read = readRows(listings.map((listing) => Buffer.from(listing)))
    writer.appendRun(read.bytes, read.ends, 0, listings.length, price ? undefined : read.places)
    digests.push(...read.digests)
  }
  return {
    upstream: `upstream-${upstream}`,
    agentUrl: `https://upstream-${upstream}.example/mcp`,
    scope: 'public',
    mode: 'wholesale',
    rows: writer.finish(),
    digests: BigUint64Array.from(digests),
    dropped: {},
    walkedAt: 0,
  }
}

export function* range(from: number, to: number) {
  for (let n = from; n < to; n += 1) yield n
}

export const everyoneMay: Judge = () => ({
  stamp: '',
  policy: 'strict',
  decide: () => ({ outcome: 'authorized', entries: [0] }),
  definition: () => undefined,
})

/** What providers publish of a signal besides its name: some of it stands in the listing as well. */
const DEFINED: Partial<SignalDefinition> = {
  value_type: 'binary',
  data_sources: ['web_usage', 'app_usage'],
  methodology: 'observed',
  methodology_url: 'https://provider.example/methodology',
  refresh_cadence: 'daily',
  countries: ['DE', 'FR', 'US'],
  consent_basis: ['consent'],
  last_updated: '2026-01-01T00:00:00Z',
}

/** Every provider publishes a definition of each of its signals. */
export const everyoneDefines: Judge = (domain) => ({
  ...everyoneMay(domain),
  definition: (id) => ({ ...DEFINED, name: `Signal number ${id.slice('signal_'.length)}` }),
})
