/**
 * A row that is put together from pieces of a published row is byte for byte what parsing it, taking from it what is not
 * shown, and writing it again would give, whatever strangers wrote into it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { published } from '../../src/merge/definition.js'
import { placesIn } from '../../src/merge/row.js'
import { createRowWriter, unasked } from '../../src/merge/row-writer.js'
import { anyText } from '../support/any-text.js'
import { hostileText } from '../support/hostile-text.js'
import { proven } from '../support/proven.js'

type Deployment = { type: string; platform: string; activation_key?: unknown }
type Row = Record<string, unknown> & {
  deployments: Deployment[]
  ext: { tributary: { offers: { deployments: string[] }[] } }
}
type Choice = { fields: string[] | undefined; shown: string[] | undefined; keyed: string[]; prices: boolean }

const OPTIONAL = Object.keys(published)
/** Text that looks like the row's own members. */
const LIKE_PIECES = ['","signal_type":"', '","deployments":[]', ',"signal_type']
const PLATFORMS = ['dv360', 'the-trade-desk', 'a "quoted" \\ name', 'ünïcode ☃']
const text = fc.oneof(fc.constantFrom(...LIKE_PIECES), hostileText, fc.constant(''), fc.string(), anyText())
const anything = fc.oneof(
  text,
  fc.jsonValue({ maxDepth: 3 }),
  fc.record({
    deployments: fc.array(text),
    ext: text,
    countries: fc.constant([{}]),
    offers: fc.constant([]),
  }),
)

const anyRow: fc.Arbitrary<Row> = fc
  .record({
    texts: fc.record({ name: text, description: text }),
    type: fc.option(fc.constantFrom('owned', 'custom'), { nil: undefined }),
    provider: fc.option(text, { nil: undefined }),
    fields: fc.dictionary(fc.constantFrom(...OPTIONAL), anything),
    platforms: fc.subarray(PLATFORMS),
    forecast: anything,
    offers: fc.array(fc.record({ upstream: text, verdict: anything, names: fc.subarray(PLATFORMS) })),
    prices: fc.option(fc.array(anything), { nil: undefined }),
    notes: fc.option(anything, { nil: undefined }),
  })
  .map(({ texts, type, provider, fields, platforms, forecast, offers, prices, notes }) => {
    const row = {
      signal_agent_segment_id: 'tributary:signal',
      signal_ref: { scope: 'data_provider', signal_id: texts.name },
      ...texts,
      ...(type !== undefined && { signal_type: type }),
      ...(provider !== undefined && { data_provider: provider }),
      ...fields,
      coverage_forecast: forecast,
      countries: ['DE'],
      deployments: platforms.map((platform) => ({ type: 'platform', platform, is_live: true })),
      ext: {
        tributary: {
          // An offer deploys on some of its signal's destinations, in the same order.
          offers: offers.map(({ names, ...offer }) => ({
            ...offer,
            deployments: platforms.filter((one) => names.includes(one)),
          })),
          ...(notes !== undefined && { conflicts: notes }),
        },
      },
      ...(prices && { pricing_options: prices }),
    }
    return JSON.parse(JSON.stringify(row)) as Row
  })

const anyChoice: fc.Arbitrary<Choice> = fc.record({
  fields: fc.option(fc.subarray([...OPTIONAL, 'name']), { nil: undefined }),
  shown: fc.option(fc.subarray(PLATFORMS), { nil: undefined }),
  keyed: fc.subarray(PLATFORMS),
  prices: fc.boolean(),
})

const keyOf = (platform: string) => ({ type: 'segment_id', segment_id: `}],"${platform}` })

function straightforward(json: string, { fields, shown, keyed, prices }: Choice): string {
  const row = JSON.parse(json) as Row
  for (const deployment of row.deployments)
    if (keyed.includes(deployment.platform)) deployment.activation_key = keyOf(deployment.platform)
  if (shown) {
    row.deployments = row.deployments.filter(({ platform }) => shown.includes(platform))
    for (const offer of row.ext.tributary.offers)
      offer.deployments = offer.deployments.filter((one) => shown.includes(one))
  }
  if (fields) for (const name of OPTIONAL) if (!fields.includes(name)) delete row[name]
  if (!prices) delete row.pricing_options
  return JSON.stringify(row)
}

function fromPieces(row: Row, { fields, shown, keyed, prices }: Choice): string {
  const { pricing_options, ...head } = row
  const platforms = row.deployments.map(({ platform }) => platform)
  const json = JSON.stringify(prices && pricing_options ? { ...head, pricing_options } : head)
  const { deployments: _, ext: __, ...opened } = head
  const opening = JSON.stringify(opened).slice(0, -1)
  const before = 'what is before it in memory'
  const from = Buffer.from(`${before}${json}`)
  const named = Math.max(0, opening.indexOf(',"signal_type":'))
  const places = placesIn({ opening, fields: named }, Buffer.byteLength(opening))
  const writer = createRowWriter(Buffer.alloc(0))
  writer.add(
    { from, start: before.length, end: from.byteLength - 1, places },
    {
      without: unasked(fields),
      ...(shown && {
        destinations: {
          count: platforms.length,
          shows: (order: number) => shown.includes(platforms[order] as string),
          names: (key: string) => shown.includes(key),
        },
      }),
      ...(keyed.length > 0 && {
        keyOf: (order: number) => {
          const platform = platforms[order] as string
          if (!keyed.includes(platform)) return undefined
          const from = Buffer.from(`${platform}${JSON.stringify(keyOf(platform))}`)
          return { from, start: Buffer.byteLength(platform), end: from.byteLength }
        },
      }),
    },
  )
  return Buffer.from(writer.written()).toString()
}

test('a row from pieces is what a row that is parsed and written again is', (t) => {
  const property = fc.property(anyRow, anyChoice, (row, choice) => {
    assert.equal(fromPieces(row, choice), straightforward(JSON.stringify(row), choice))
  })
  t.doesNotThrow(() => proven(t, 500, property))
  t.end()
})

test('no two names of members are taken for each other', (t) => {
  const row = {
    ...{ signal_agent_segment_id: 'x', signal_ref: {}, signal_id: {}, name: 'n', description: 'd' },
    ...{ signal_type: 'owned', data_provider: 'p', coverage_percentage: 1, coverage_forecast: {} },
    ...Object.fromEntries(OPTIONAL.map((name) => [name, name])),
    deployments: [],
    ext: { tributary: { offers: [] } },
    pricing_options: [],
  } as Row
  const choice = { shown: undefined, keyed: [], prices: true }
  for (const name of OPTIONAL) {
    const { [name]: _, ...rest } = row
    const fields = OPTIONAL.filter((one) => one !== name)
    t.equal(fromPieces(row, { ...choice, fields }), JSON.stringify(rest), name)
  }
  t.end()
})
