/**
 * The activation keys that a reader may see are copied from where they stand in private listings. However an upstream writes
 * its listings, the reader gets what parsing them gives, and nobody without a grant gets a byte of a key.
 */
import fc from 'fast-check'
import { test } from 'tap'
import type { Feed } from '../../src/feed/feed.js'
import type { Reader } from '../../src/feed/query.js'
import { keySpans } from '../../src/merge/deployments.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'
import { emptyFeed, publish } from './feed-of.js'
import { anonymous, buyer, judgeThat, listing, sliceOfTexts } from './world.js'

type Key = Record<string, unknown>
type Deployment = { type: string; platform: string; is_live: boolean; activation_key?: Key }
type Row = { signal_ref: { signal_id: string }; deployments: Deployment[] }

const PLATFORMS = ['dv360', 'the-trade-desk', 'xandr']
const SECRET = 'S3CRET'
/** Text that looks like a key, or like the end of one. */
const HOSTILE = [
  `"activation_key":{"type":"segment_id","segment_id":"${SECRET}9"}`,
  '"activation_key":',
  '{"activation_key":{',
  '"}]}',
  '\\',
  'ünïcode ☃ \u2028',
  '',
]

const word = fc.oneof(fc.constantFrom(...HOSTILE), anyText({ maxLength: 6 }))
const anyKey: fc.Arbitrary<Key> = fc.oneof(
  word.map((id) => ({ type: 'segment_id', segment_id: `${SECRET}${id}` })),
  fc
    .record({ key: word, value: word })
    .map(({ key, value }) => ({ type: 'key_value', key: `${SECRET}${key}`, value })),
  // What the protocol may add later is kept as it came; numbers as names are put in order by whoever parses them.
  word.map((more) => ({ type: 'segment_id', segment_id: SECRET, more: { [more]: 1e21, 7: more, 1: [0.1] } })),
)
const anyDeployment: fc.Arbitrary<Deployment> = fc
  .record({
    platform: fc.constantFrom(...PLATFORMS),
    is_live: fc.constantFrom(true, true, false),
    key: fc.option(anyKey, { nil: undefined }),
  })
  .map(({ platform, is_live, key }) => ({
    ...{ type: 'platform', platform, is_live },
    ...(key && { activation_key: key }),
  }))

/** The same JSON as a careless agent would write it. */
const SPELLINGS: ((json: string) => string)[] = [
  (json) => json,
  (json) => json,
  (json) => json.replaceAll('"activation_key":', '"activation_key" :'),
  (json) => json.replaceAll('"activation_key":', '"activation_key": '),
  (json) => json.replaceAll('"segment_id":"', '"segment\\u005fid":"'),
  (json) => json.replaceAll('"type":"segment_id"', '"type":"segment\\u005fid"'),
  (json) => json.replaceAll('"activation_key":', `"activation_key":{"type":"${SECRET}0"},"activation_key":`),
  (json) => json.replaceAll('1e+21', '1000000000000000000000'),
  (json) => json.replaceAll('[0.1]', '[1.0e-1]'),
]

type Written = { id: string; description: string; deployments: Deployment[]; spelling: number }

const anyWritten: fc.Arbitrary<Written> = fc.record({
  id: fc.constantFrom('s1', 's2', 's3'),
  description: word,
  deployments: fc.array(anyDeployment, { maxLength: 4 }),
  spelling: fc.nat(SPELLINGS.length - 1),
})

function textOf({ id, description, deployments, spelling }: Written): string {
  const row = listing(id, { description, deployments } as Partial<Listing>)
  return (SPELLINGS[spelling] as (json: string) => string)(JSON.stringify(row))
}

/** Upstreams sell a signal as one segment each. */
const anyUpstreams = fc.array(fc.uniqueArray(anyWritten, { selector: ({ id }) => id, maxLength: 3 }), {
  minLength: 1,
  maxLength: 3,
})
const slicesOf = (upstreams: readonly Written[][]) =>
  upstreams.map((rows, at) => sliceOfTexts(`upstream-${at}`, rows.map(textOf)))

/** A feed of these upstreams, built on one of those. */
function feedAfter(earlier: readonly Written[][], upstreams: readonly Written[][]): Feed {
  const feed = emptyFeed()
  publish(feed, slicesOf(earlier))
  publish(feed, slicesOf(upstreams))
  return feed
}

function rowsFor(reader: Reader, feed: Feed): string {
  const answer = feed.wholesale({ maxResults: 100 }, reader, 0)
  return answer.kind === 'page' ? Buffer.concat(answer.rows).toString() : answer.kind
}

const grantedOf = (platforms: readonly string[]): Reader => ({
  ...{ ...buyer, caller: 'granted' },
  grants: platforms.map((platform) => ({ type: 'platform', platform })),
})

/**
 * Of what the upstreams say when their listings are parsed, the key that the first live one gives. A listing that gives several
 * for one platform gives the one whose text is first, whatever their order in it.
 */
function firstKey(upstreams: readonly Written[][], id: string, platform: string): Key | undefined {
  for (const rows of upstreams) {
    for (const written of rows.filter((row) => row.id === id)) {
      const { deployments } = JSON.parse(textOf(written)) as { deployments: Deployment[] }
      const keys = deployments
        .filter((given) => given.platform === platform && given.is_live)
        .flatMap(({ activation_key: key }) => (key ? [JSON.stringify(key)] : []))
      const [first] = keys.sort((a, b) => (a < b ? -1 : 1))
      if (first) return JSON.parse(first)
    }
  }
  return undefined
}

test('keys from where they stand are what parsed listings give, after every change', (t) => {
  let [seen, copied, parsed] = [0, 0, 0]
  const property = fc.property(
    anyUpstreams,
    anyUpstreams,
    fc.subarray(PLATFORMS, { minLength: 1 }),
    (upstreams, earlier, granted) => {
      const feed = feedAfter(earlier, upstreams)
      const plain = JSON.parse(`[${rowsFor(buyer, feed)}]`) as Row[]
      for (const { signal_ref, deployments } of plain)
        for (const one of deployments) {
          const key = granted.includes(one.platform)
            ? firstKey(upstreams, signal_ref.signal_id, one.platform)
            : undefined
          if (!key) continue
          one.activation_key = key
          seen += 1
        }
      const expected = plain.map((row) => JSON.stringify(row)).join()
      const found = rowsFor(grantedOf(granted), feed)
      if (found !== expected) throw new Error(`${found}\n${expected}`)
      const { key, keyBytes } = (feed.current() as Snapshot).deployments
      keyBytes.forEach((bytes, one) => {
        if (bytes > 0) copied += 1
        else if (key[one * 2] !== 0) parsed += 1
      })
      return true
    },
  )
  proven(t, 80, property)
  t.ok(seen > 0, `${seen} keys shown`)
  t.ok(copied > 0 && parsed > 0, `${copied} keys were copied, listings of ${parsed} parsed`)
  t.end()
})

test('who has no grant gets no byte of a key, and who has one gets only the keys of its destinations', (t) => {
  const plainWords = anyUpstreams.map((upstreams) =>
    upstreams.map((rows) => rows.map((row) => ({ ...row, description: 'plain' }))),
  )
  const property = fc.property(plainWords, plainWords, (upstreams, earlier) => {
    const feed = feedAfter(earlier, upstreams)
    for (const reader of [buyer, anonymous, { ...grantedOf(['dv360']), visibility: 'metadata' } as const]) {
      if (rowsFor(reader, feed).includes(SECRET)) return false
    }
    const granted = JSON.parse(`[${rowsFor(grantedOf(['dv360']), feed)}]`) as Row[]
    const others = granted.flatMap(({ deployments }) =>
      deployments.filter(({ platform }) => platform !== 'dv360'),
    )
    return !JSON.stringify(others).includes(SECRET)
  })
  proven(t, 40, property)
  t.end()
})

test('a snapshot holds no byte of a key', (t) => {
  const key = { type: 'segment_id', segment_id: SECRET }
  const rows = [{ type: 'platform', platform: 'dv360', is_live: true, activation_key: key }]
  const slices = [
    sliceOfTexts('one', [JSON.stringify(listing('s1', { deployments: rows } as Partial<Listing>))]),
  ]
  const snapshot = buildSnapshot({ slices, judge: judgeThat() })
  t.ok((snapshot.deployments.keyBytes[0] as number) > 0)
  for (const chunk of snapshot.rows.chunks) t.notOk(Buffer.from(chunk).includes(SECRET))
  t.end()
})

test('a key has no place in a listing whose number the snapshot cannot hold', (t) => {
  const activationKey = { type: 'segment_id', segment_id: SECRET } as const
  const key = Buffer.from(`{"activation_key":${JSON.stringify(activationKey)}}`)
  const other = Buffer.from('{}')
  const most = new Uint16Array([-1])[0] as number // the largest number in `deployments.keyOffer`
  const spanAt = (listing: number) =>
    keySpans([{ activationKey }], () => [...Array.from({ length: listing }, () => other), key])[0]
  t.equal(spanAt(most)?.listing, most)
  t.equal(spanAt(most + 1), undefined, 'another listing would be taken for it')
  t.end()
})
