/**
 * A page of every combination of what buyers ask with (fields, a destination, countries, the caller's keys, no prices) is byte
 * for byte what a straightforward writer makes: one that parses each row as it stands and takes from it what was not asked.
 */
import fc from 'fast-check'
import { test } from 'tap'
import type { Destination } from '../../src/adcp/signal.js'
import type { Feed } from '../../src/feed/feed.js'
import type { Reader, WholesaleQuery } from '../../src/feed/query.js'
import { published } from '../../src/merge/definition.js'
import { proven } from '../support/proven.js'
import { anySlices } from './arbitrary.js'
import { emptyFeed, publish } from './feed-of.js'
import { buyer } from './world.js'

type Deployment = Destination & { is_live: boolean; activation_key?: object }
type Row = Record<string, unknown> & {
  deployments: Deployment[]
  ext: { tributary: { offers: { deployments: string[] }[] } }
}

const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
const NAME_OF_DESK = 'the-trade-desk'
const FIELDS = ['consent_basis']
/** What `fields` chooses among (specification, "Resources"): of these the random rows have some. */
const OPTIONAL = Object.keys(published)
const isDesk = (one: Destination) => one.type === 'platform' && one.platform === NAME_OF_DESK

function rowsOf(feed: Feed, query: Omit<WholesaleQuery, 'maxResults'>, reader: Reader): string {
  const answer = feed.wholesale({ maxResults: 100, ...query }, reader, 0)
  return answer.kind === 'page' ? Buffer.concat(answer.rows).toString() : answer.kind
}

type Asked = { fields: boolean; destination: boolean; countries: boolean; keys: boolean; prices: boolean }

const queryOf = ({ fields, destination, countries }: Asked) => ({
  ...(fields && { fields: FIELDS }),
  ...(destination && { destinations: [DESK] }),
  ...(countries && { countries: ['DE'] }),
})

const readerOf = ({ keys, prices }: Asked): Reader => ({
  ...{ ...buyer, caller: keys ? 'granted' : 'buyer', visibility: prices ? 'full' : 'metadata' },
  grants: keys ? [DESK] : [],
})

/** What was not asked is taken from rows that have everything. */
function straightforward(whole: string, { fields, destination, prices }: Asked): string {
  const rows = (JSON.parse(`[${whole}]`) as Row[]).filter(
    ({ deployments, ext }) =>
      !destination ||
      deployments.some(isDesk) ||
      ext.tributary.offers.some((offer) => offer.deployments.length === 0), // may be asked anywhere
  )
  for (const row of rows) {
    if (destination) {
      row.deployments = row.deployments.filter(isDesk)
      for (const offer of row.ext.tributary.offers)
        offer.deployments = offer.deployments.filter((name) => name.includes(NAME_OF_DESK))
    }
    if (fields) for (const name of OPTIONAL) if (!FIELDS.includes(name)) delete row[name]
    if (!prices) delete row.pricing_options
  }
  return rows.map((row) => JSON.stringify(row)).join(',')
}

const COMBINATIONS: Asked[] = Array.from({ length: 32 }, (_, bits) => ({
  ...{ fields: (bits & 1) > 0, destination: (bits & 2) > 0, countries: (bits & 4) > 0 },
  ...{ keys: (bits & 8) > 0, prices: (bits & 16) > 0 },
}))

test('every combination is what a straightforward writer makes of whole rows', (t) => {
  let compared = 0
  const property = fc.property(anySlices, (slices) => {
    const feed = emptyFeed()
    publish(feed, slices)
    for (const asked of COMBINATIONS) {
      const { countries } = asked
      const keys = asked.keys && asked.prices // who may not see prices has no name to grant keys to
      const base = { fields: false, destination: false, prices: true, countries, keys }
      const whole = rowsOf(feed, queryOf(base), readerOf(base))
      const found = rowsOf(feed, queryOf(asked), readerOf(asked))
      if (found !== straightforward(whole, asked))
        throw new Error(`${JSON.stringify(asked)}:\n${found}\n${straightforward(whole, asked)}`)
      compared += 1
    }
    return true
  })
  proven(t, 6, property)
  t.ok(compared >= 32 * 6)
  t.end()
})

test('keys are all that a grant adds, each at a live deployment that was granted', (t) => {
  let seen = 0
  const property = fc.property(anySlices, fc.boolean(), (slices, countries) => {
    const feed = emptyFeed()
    publish(feed, slices)
    const all = { fields: false, destination: false, prices: true, countries }
    const plain = rowsOf(feed, queryOf({ ...all, keys: false }), readerOf({ ...all, keys: false }))
    const granted = JSON.parse(
      `[${rowsOf(feed, queryOf({ ...all, keys: true }), readerOf({ ...all, keys: true }))}]`,
    ) as Row[]
    for (const { deployments } of granted)
      for (const one of deployments) {
        if (one.activation_key && !(one.is_live && isDesk(one))) return false
        if (one.activation_key) seen += 1
        delete one.activation_key
      }
    return granted.map((row) => JSON.stringify(row)).join(',') === plain
  })
  proven(t, 6, property)
  t.ok(seen > 0, `${seen} keys`)
  t.end()
})
