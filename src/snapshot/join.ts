/** The columns of the snapshot before and those of the signals merged now, as the columns of one snapshot. */
import { f64, mapped, u8, u16, u32 } from './columns.js'
import type { Columns } from './draft.js'
import { WORDS } from './keys.js'
import { unworn } from './row-chunks.js'
import type { OfferColumns, Rows } from './snapshot.js'
import { childWeave, type Weave, woven, wovenAt } from './weave.js'
import { joinWords, tidied } from './words.js'

const KEY_WORDS = 2 // of an activation key

function joinRows(previous: Rows, patch: Rows, weave: Weave): Rows {
  const before = previous.chunks.length
  const moved = mapped(u16, patch.chunkOf, (chunk, entry) => (patch.length[entry] ? chunk + before : 0))
  const rows = {
    chunks: [...previous.chunks, ...patch.chunks],
    chunkOf: woven(u16, previous.chunkOf, moved, weave),
    start: woven(u32, previous.start, patch.start, weave),
    head: woven(u32, previous.head, patch.head, weave),
    length: woven(u32, previous.length, patch.length, weave),
  }
  return unworn(
    rows,
    patch.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0),
  )
}

/** Words that the new signals brought may have left others without a use. */
function joinList(before: readonly string[], patch: readonly string[], fixed: number) {
  const { list, renumbered } = joinWords(before, patch)
  const tidy = (...columns: Uint32Array[]) =>
    list === before ? ([list, columns] as const) : tidied(list, columns, fixed)
  return { renumbered, tidy }
}

/** `offers`: those of the snapshot before, in the numbering of the new one's slices. */
export function joined(previous: Columns, offers: OfferColumns, patch: Columns, weave: Weave): Columns {
  const { facts, deployments, digests } = previous
  const wide = (before: Uint32Array, now: Uint32Array) => woven(u32, before, now, weave, WORDS)
  const named = {
    providers: joinList(facts.providers, patch.facts.providers, 1),
    domains: joinList(facts.domains, patch.facts.domains, 1),
    countrySets: joinList(facts.countrySets, patch.facts.countrySets, 1),
    destinations: joinList(deployments.destinations, patch.deployments.destinations, 0),
  }
  const number = (of: keyof typeof named, before: Uint32Array, now: Uint32Array, by = weave) =>
    woven(u32, before, named[of].renumbered(now), by)
  const targets = childWeave(weave, deployments.at, patch.deployments.at)
  const sold = childWeave(weave, offers.at, patch.offers.at)

  const [providers, [provider]] = named.providers.tidy(
    number('providers', facts.provider, patch.facts.provider),
  )
  const [domains, [domain]] = named.domains.tidy(number('domains', facts.domain, patch.facts.domain))
  const [countrySets, [countries, bounds]] = named.countrySets.tidy(
    number('countrySets', facts.countries, patch.facts.countries),
    number('countrySets', offers.countries, patch.offers.countries, sold),
  )
  const [destinations, [destination]] = named.destinations.tidy(
    number('destinations', deployments.destination, patch.deployments.destination, targets),
  )
  return {
    count: weave.count,
    keys: wide(previous.keys, patch.keys),
    rows: joinRows(previous.rows, patch.rows, weave),
    digests: {
      structure: wide(digests.structure, patch.digests.structure),
      core: wide(digests.core, patch.digests.core),
      pricing: wide(digests.pricing, patch.digests.pricing),
    },
    facts: {
      type: woven(u8, facts.type, patch.facts.type, weave),
      provider: provider as Uint32Array,
      domain: domain as Uint32Array,
      countries: countries as Uint32Array,
      mixed: woven(u8, facts.mixed, patch.facts.mixed, weave),
      anywhere: woven(u8, facts.anywhere, patch.facts.anywhere, weave),
      coverage: woven(f64, facts.coverage, patch.facts.coverage, weave),
      cpm: woven(f64, facts.cpm, patch.facts.cpm, weave),
      percent: woven(f64, facts.percent, patch.facts.percent, weave),
      currency: woven(u32, facts.currency, patch.facts.currency, weave),
      providers,
      domains,
      countrySets,
    },
    deployments: {
      at: wovenAt(deployments.at, patch.deployments.at, weave, targets),
      destination: destination as Uint32Array,
      words: woven(u32, deployments.words, patch.deployments.words, targets, WORDS),
      key: woven(u32, deployments.key, patch.deployments.key, targets, KEY_WORDS),
      destinations,
    },
    offers: {
      at: wovenAt(offers.at, patch.offers.at, weave, sold),
      slice: woven(u16, offers.slice, patch.offers.slice, sold),
      row: woven(u32, offers.row, patch.offers.row, sold),
      stands: woven(u8, offers.stands, patch.offers.stands, sold),
      countries: bounds as Uint32Array,
    },
  }
}
