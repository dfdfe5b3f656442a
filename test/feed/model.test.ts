import fc from 'fast-check'
import { test } from 'tap'
import type { Judge } from '../../src/authz/rules/verdict.js'
import type { Filters, Reader, Selection } from '../../src/feed/query.js'
import { type Identity, identityKey, identityOf } from '../../src/merge/identity.js'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import type { Offer } from '../../src/merge/offer.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { type Slice, sliceListing } from '../../src/upstreams/rows/slice.js'
import { rowText } from '../merge/offers.js'
import { proven } from '../support/proven.js'
import { anyJudge, anyRows } from './arbitrary.js'
import { emptyFeed } from './feed-of.js'
import { type Row, rowsOf } from './reader.js'
import { anonymous, buyer, sliceOf } from './world.js'

/**
 * The simplest feed that could be right: everything from scratch, everything as objects, at every read.
 */
function reference(slices: readonly Slice[], judge: Judge): Row[] {
  const groups = new Map<string, { identity: Identity; offers: Offer[] }>()
  for (const slice of slices) {
    for (let row = 0; row < slice.rows.count; row += 1) {
      const listing = sliceListing(slice, row)
      const identity = identityOf(listing, slice.agentUrl)
      if (!identity) continue
      const group = groups.get(identityKey(identity)) ?? { identity, offers: [] }
      groups.set(identityKey(identity), group)
      const { upstream, agentUrl, mode } = slice
      const bytes = slice.rows.length[row] as number
      const verdict =
        identity.kind === 'provider'
          ? judge(identity.domain).decide(identity.id, agentUrl)
          : ({ outcome: 'not_applicable' } as const)
      group.offers.push({ upstream, agentUrl, mode, listing, bytes, verdict })
    }
  }
  const order = (row: Row) => Buffer.from(row.signal_agent_segment_id.slice('sig_'.length), 'base64url')
  return [...groups.values()]
    .map(({ identity, offers }) => {
      const view = identity.kind === 'provider' ? judge(identity.domain) : undefined
      const definition = identity.kind === 'provider' ? view?.definition(identity.id) : undefined
      return mergeSignal(identity, offers, view?.policy ?? 'strict', definition)
    })
    .flatMap((signal) => (signal.kind === 'signal' ? [JSON.parse(`${rowText(signal)}}`) as Row] : []))
    .sort((a, b) => Buffer.compare(order(a), order(b)))
}

const exceeds = (row: Row, model: string, field: string, limit: number) => {
  const options = (row.pricing_options ?? []).filter((option) => option.model === model) as unknown as Record<
    string,
    number
  >[]
  return options.length > 0 && options.every((option) => (option[field] as number) > limit)
}

function matches(row: Row, { filters = {}, countries }: Selection, { visibility }: Reader): boolean {
  const { catalog_types, data_providers, max_cpm, min_coverage_percentage } = filters as {
    [Name in keyof Filters]: never
  } & {
    catalog_types?: string[]
    data_providers?: string[]
    max_cpm?: number
    min_coverage_percentage?: number
  }
  const { data_provider_domain: domain } = row.signal_ref as { data_provider_domain?: string }
  const names = [(row.data_provider as string | undefined)?.toLowerCase(), domain]
  const own = row.countries as string[] | undefined
  return (
    (!catalog_types || catalog_types.includes(row.signal_type as string)) &&
    (!data_providers || data_providers.some((name) => names.includes(name.toLowerCase()))) &&
    !(max_cpm !== undefined && visibility === 'full' && exceeds(row, 'cpm', 'cpm', max_cpm)) &&
    (!min_coverage_percentage ||
      ((row.coverage_percentage as number | undefined) ?? -1) >= min_coverage_percentage) &&
    (!countries || !own || own.some((country) => countries.includes(country)))
  )
}

function shown(row: Row, { visibility }: Reader): Row {
  if (visibility === 'full') return row
  const { pricing_options: _, ...rest } = row
  return rest as Row
}

const selections: Selection[] = [
  {},
  { filters: { catalog_types: ['owned', 'custom'] } },
  { filters: { data_providers: ['ONE inc', 'two.example'] } },
  { filters: { max_cpm: 1 } },
  { filters: { min_coverage_percentage: 5 } },
]
const readers = [buyer, anonymous]

type Step =
  | { kind: 'slice'; upstream: string; rows: Parameters<typeof sliceOf>[1] }
  | { kind: 'leaves'; upstream: string }
  | { kind: 'judge'; judge: Judge }
  | { kind: 'nothing new' }
  | { kind: 'read'; selection: number; reader: number; size: number }
  | { kind: 'start a walk'; selection: number; reader: number; size: number }
  | { kind: 'go on' }

const upstream = fc.constantFrom('alpha', 'beta', 'gamma')
const reading = {
  selection: fc.nat(selections.length - 1),
  reader: fc.nat(readers.length - 1),
  size: fc.integer({ min: 1, max: 5 }),
}
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('slice' as const), upstream, rows: anyRows }),
  fc.record({ kind: fc.constant('leaves' as const), upstream }),
  fc.record({ kind: fc.constant('judge' as const), judge: anyJudge }),
  fc.record({ kind: fc.constant('nothing new' as const) }),
  fc.record({ kind: fc.constant('read' as const), ...reading }),
  fc.record({ kind: fc.constant('start a walk' as const), ...reading }),
  fc.record({ kind: fc.constant('go on' as const) }),
)

const text = (rows: readonly Row[]) => JSON.stringify(rows)

function run(first: Judge, steps: readonly Step[]): void {
  const feed = emptyFeed({ ms: 1_000, bytes: 2 ** 30 })
  const slices = new Map<string, Slice>()
  const contents = new Map<string, string>()
  let judge = first
  let previous: Snapshot | undefined
  let walk:
    | { selection: number; reader: number; size: number; cursor?: string; left: Row[]; version: string }
    | undefined

  const expected = (selection: number, reader: number) =>
    reference([...slices.values()], judge)
      .filter((row) => matches(row, selections[selection] as Selection, readers[reader] as Reader))
      .map((row) => shown(row, readers[reader] as Reader))

  function publish(): void {
    previous = buildSnapshot({ ...(previous ? { previous } : {}), slices: [...slices.values()], judge })
    feed.publish(previous, 0)
  }

  /** One token never stands for two contents, and what was current once is unchanged while it is the same. */
  function remember(key: string, content: string): void {
    const known = contents.get(key)
    if (known !== undefined && known !== content) throw new Error('one version stands for two contents')
    contents.set(key, content)
  }

  function read(selection: number, reader: number, size: number, cursor?: string) {
    const query = { ...selections[selection], maxResults: size, ...(cursor ? { cursor } : {}) }
    const answer = feed.wholesale(query, readers[reader] as Reader, 0)
    if (answer.kind !== 'page') throw new Error(`a page was expected, ${answer.kind} came`)
    return { ...answer, signals: rowsOf(answer) }
  }

  function check(what: string, got: readonly Row[], wanted: readonly Row[]): void {
    if (text(got) !== text(wanted))
      throw new Error(`${what}: ${text(got)} came, ${text(wanted)} was expected`)
  }

  publish()
  for (const one of steps) {
    if (one.kind === 'slice') slices.set(one.upstream, sliceOf(one.upstream, one.rows))
    if (one.kind === 'leaves') slices.delete(one.upstream)
    if (one.kind === 'judge') judge = one.judge
    if (one.kind === 'read' || one.kind === 'start a walk') {
      const all = expected(one.selection, one.reader)
      const page = read(one.selection, one.reader, one.size)
      check('a page', page.signals, all.slice(0, one.size))
      if (page.total !== all.length) throw new Error(`${page.total} in all, ${all.length} were expected`)
      remember(`${page.feedVersion} ${page.pricingVersion}`, text(all))
      const again = feed.wholesale(
        {
          ...selections[one.selection],
          maxResults: one.size,
          ifFeedVersion: page.feedVersion,
          ...(page.pricingVersion ? { ifPricingVersion: page.pricingVersion } : {}),
        },
        readers[one.reader] as Reader,
        0,
      )
      if (again.kind !== 'unchanged') throw new Error(`unchanged was expected, ${again.kind} came`)
      if (one.kind === 'start a walk') {
        walk = {
          ...one,
          left: all.slice(one.size),
          version: page.feedVersion,
          ...(page.cursor ? { cursor: page.cursor } : {}),
        }
      }
    } else if (one.kind === 'go on') {
      if (!walk?.cursor) continue
      const page = read(walk.selection, walk.reader, walk.size, walk.cursor)
      check('a later page', page.signals, walk.left.slice(0, walk.size))
      if (page.feedVersion !== walk.version) throw new Error('the version moved under a walk')
      const { cursor: _, ...rest } = walk
      walk = { ...rest, left: walk.left.slice(walk.size), ...(page.cursor ? { cursor: page.cursor } : {}) }
      if (!page.cursor && walk.left.length > 0) throw new Error('the walk ended early')
    } else publish()
  }
}

test('whatever happens to upstreams and providers, reads are those of the simplest feed that could be right', (t) => {
  proven(
    t,
    50,
    fc.property(anyJudge, fc.array(step, { minLength: 5, maxLength: 25 }), (judge, steps) =>
      run(judge, steps),
    ),
  )
  t.end()
})
