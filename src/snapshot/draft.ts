/** A snapshot being written, signal by signal in key order; `finish` gives its columns. */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import type { MergedSignal } from '../merge/signal.js'
import { createColumn, createRenumbering, createWords, f64, u8, u16, u32 } from './columns.js'
import { WORDS } from './keys.js'
import { createRowDraft } from './row-draft.js'
import { keyWords, pushWords, type RowWords, rowWords } from './row-words.js'
import type { Snapshot } from './snapshot.js'

/** Where an offer's listing lies, in the numbering of the new snapshot's slices. */
export type OfferPlace = { slice: number; row: number }

const NO_DIGEST = [0, 0, 0, 0]
const NO_WORDS: readonly string[] = []

export function createDraft(previous: Snapshot | undefined, expected: number) {
  const rows = createRowDraft(previous, expected)
  const keys = createColumn(u32, expected * WORDS)
  const shown = createColumn(u32, expected)
  const structure = createColumn(u32, expected * WORDS)
  const core = createColumn(u32, expected * WORDS)
  const pricing = createColumn(u32, expected * WORDS)
  const type = createColumn(u8, expected)
  const provider = createColumn(u32, expected)
  const domain = createColumn(u32, expected)
  const countries = createColumn(u32, expected)
  const mixed = createColumn(u8, expected)
  const coverage = createColumn(f64, expected)
  const cpm = createColumn(f64, expected)
  const percent = createColumn(f64, expected)
  const deploymentsAt = createColumn(u32, expected + 1)
  const destination = createColumn(u32, expected)
  const deployed = createColumn(u32, expected * WORDS)
  const activation = createColumn(u32, expected * 2)
  const offersAt = createColumn(u32, expected + 1)
  const offerSlice = createColumn(u16, expected)
  const offerRow = createColumn(u32, expected)
  const stands = createColumn(u8, expected)
  const bound = createColumn(u32, expected)

  const providers = createWords()
  const domains = createWords()
  const countrySets = createWords()
  const destinations = createWords()
  for (const words of [providers, domains, countrySets]) words.id('')
  const renumbered = {
    provider: createRenumbering(previous?.facts.providers ?? NO_WORDS, providers),
    domain: createRenumbering(previous?.facts.domains ?? NO_WORDS, domains),
    countries: createRenumbering(previous?.facts.countrySets ?? NO_WORDS, countrySets),
    destination: createRenumbering(previous?.deployments.destinations ?? NO_WORDS, destinations),
  }
  let count = 0
  deploymentsAt.push(0)
  offersAt.push(0)

  function close(isShown: boolean): void {
    deploymentsAt.push(destination.length())
    offersAt.push(offerSlice.length())
    if (isShown) shown.push(count)
    count += 1
  }

  function pushFacts(domainName: string, signal?: MergedSignal): void {
    type.push(signal ? SIGNAL_TYPES.indexOf(signal.type) : 0)
    provider.push(providers.id(signal?.provider?.trim().toLowerCase() ?? ''))
    domain.push(domains.id(domainName))
    countries.push(countrySets.id(signal?.countries?.join() ?? ''))
    mixed.push(signal?.mixed ? 1 : 0)
    coverage.push(signal?.coverage ?? Number.NaN)
    cpm.push(signal?.lowestCpm ?? Number.NaN)
    percent.push(signal?.lowestPercent ?? Number.NaN)
  }

  function pushOffers(offers: readonly OfferPlace[], signal?: MergedSignal): void {
    offers.forEach(({ slice, row }, at) => {
      offerSlice.push(slice)
      offerRow.push(row)
      stands.push(signal?.contributes[at] ? 1 : 0)
      bound.push(countrySets.id(signal?.bounds[at]?.join() ?? ''))
    })
  }

  function pushDeployments({ deployments }: MergedSignal, words: RowWords): void {
    deployments.forEach(({ key, activationKey }, order) => {
      destination.push(destinations.id(key))
      pushWords(deployed, words.deployments[order] ?? NO_DIGEST)
      for (const word of keyWords(activationKey)) activation.push(word)
    })
  }

  /** A signal that was merged now. `domainName` is empty for signals that no provider publishes. */
  function add(
    key: ArrayLike<number>,
    at: number,
    domainName: string,
    offers: readonly OfferPlace[],
    signal: MergedSignal,
  ) {
    const words = rowWords(signal)
    rows.add(signal)
    pushWords(keys, key, at)
    pushWords(structure, words.structure)
    pushWords(core, words.core)
    pushWords(pricing, words.pricing)
    pushFacts(domainName, signal)
    pushDeployments(signal, words)
    pushOffers(offers, signal)
    close(true)
  }

  /** A signal that has offers and no row. */
  function withhold(key: ArrayLike<number>, at: number, domainName: string, offers: readonly OfferPlace[]) {
    rows.none()
    pushWords(keys, key, at)
    pushWords(structure, NO_DIGEST)
    pushWords(core, NO_DIGEST)
    pushWords(pricing, NO_DIGEST)
    pushFacts(domainName)
    pushOffers(offers)
    close(false)
  }

  /** An entry of the previous snapshot as it was; only its offers' places are new. */
  function keep(from: Snapshot, entry: number, offers: readonly OfferPlace[]): void {
    const { facts, digests } = from
    const isShown = from.rows.length[entry] !== 0
    if (isShown) rows.keep(from, entry)
    else rows.none()
    pushWords(keys, from.keys, entry)
    pushWords(structure, digests.structure, entry)
    pushWords(core, digests.core, entry)
    pushWords(pricing, digests.pricing, entry)
    type.push(facts.type[entry] as number)
    provider.push(renumbered.provider(facts.provider[entry] as number))
    domain.push(renumbered.domain(facts.domain[entry] as number))
    countries.push(renumbered.countries(facts.countries[entry] as number))
    mixed.push(facts.mixed[entry] as number)
    coverage.push(facts.coverage[entry] as number)
    cpm.push(facts.cpm[entry] as number)
    percent.push(facts.percent[entry] as number)
    const { at, destination: before, words, key } = from.deployments
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      destination.push(renumbered.destination(before[one] as number))
      pushWords(deployed, words, one)
      activation.push(key[one * 2] as number)
      activation.push(key[one * 2 + 1] as number)
    }
    const firstOffer = from.offers.at[entry] as number
    offers.forEach(({ slice, row }, at) => {
      offerSlice.push(slice)
      offerRow.push(row)
      stands.push(from.offers.stands[firstOffer + at] as number)
      bound.push(renumbered.countries(from.offers.countries[firstOffer + at] as number))
    })
    close(isShown)
  }

  function finish() {
    return {
      count,
      keys: keys.finish(),
      shown: shown.finish(),
      rows: rows.finish(),
      digests: { structure: structure.finish(), core: core.finish(), pricing: pricing.finish() },
      facts: {
        type: type.finish(),
        provider: provider.finish(),
        domain: domain.finish(),
        countries: countries.finish(),
        mixed: mixed.finish(),
        coverage: coverage.finish(),
        cpm: cpm.finish(),
        percent: percent.finish(),
        providers: providers.list,
        domains: domains.list,
        countrySets: countrySets.list,
      },
      deployments: {
        at: deploymentsAt.finish(),
        destination: destination.finish(),
        words: deployed.finish(),
        key: activation.finish(),
        destinations: destinations.list,
      },
      offers: {
        at: offersAt.finish(),
        slice: offerSlice.finish(),
        row: offerRow.finish(),
        stands: stands.finish(),
        countries: bound.finish(),
      },
    }
  }

  return { add, withhold, keep, finish }
}
