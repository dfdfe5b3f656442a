/** Signals that were merged now, in key order, as the columns of a snapshot of them alone. */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { NO_CURRENCY } from '../merge/pricing.js'
import type { MergedSignal } from '../merge/signal.js'
import { createColumn, createWords, f64, u8, u16, u32 } from './columns.js'
import { WORDS } from './keys.js'
import { createRowDraft } from './row-draft.js'
import { keyWords, pushWords, type RowWords, rowWords } from './row-words.js'
import type { Snapshot } from './snapshot.js'

/** Where an offer's listing lies, in the numbering of the new snapshot's slices. */
export type OfferPlace = { slice: number; row: number }

const NO_DIGEST = [0, 0, 0, 0]

/** All columns but those that are made from the others. */
export type Columns = Pick<
  Snapshot,
  'count' | 'keys' | 'rows' | 'digests' | 'facts' | 'deployments' | 'offers'
>

export function createDraft(expected: number) {
  const rows = createRowDraft(expected)
  const keys = createColumn(u32, expected * WORDS)
  const structure = createColumn(u32, expected * WORDS)
  const core = createColumn(u32, expected * WORDS)
  const pricing = createColumn(u32, expected * WORDS)
  const type = createColumn(u8, expected)
  const provider = createColumn(u32, expected)
  const domain = createColumn(u32, expected)
  const countries = createColumn(u32, expected)
  const mixed = createColumn(u8, expected)
  const anywhere = createColumn(u8, expected)
  const coverage = createColumn(f64, expected)
  const cpm = createColumn(f64, expected)
  const percent = createColumn(f64, expected)
  const currency = createColumn(u32, expected)
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
  let count = 0
  deploymentsAt.push(0)
  offersAt.push(0)

  function close(): void {
    deploymentsAt.push(destination.length())
    offersAt.push(offerSlice.length())
    count += 1
  }

  function pushFacts(domainName: string, signal?: MergedSignal): void {
    type.push(signal ? SIGNAL_TYPES.indexOf(signal.type) : 0)
    provider.push(providers.id(signal?.provider?.trim().toLowerCase() ?? ''))
    domain.push(domains.id(domainName))
    countries.push(countrySets.id(signal?.countries?.join() ?? ''))
    mixed.push(signal?.mixed ? 1 : 0)
    anywhere.push(signal?.anywhere ? 1 : 0)
    coverage.push(signal?.coverage ?? Number.NaN)
    cpm.push(signal?.lowestCpm ?? Number.NaN)
    percent.push(signal?.lowestPercent ?? Number.NaN)
    currency.push(signal?.cpmCurrency ?? NO_CURRENCY)
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
    close()
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
    close()
  }

  function finish(): Columns {
    return {
      count,
      keys: keys.finish(),
      rows: rows.finish(),
      digests: { structure: structure.finish(), core: core.finish(), pricing: pricing.finish() },
      facts: {
        type: type.finish(),
        provider: provider.finish(),
        domain: domain.finish(),
        countries: countries.finish(),
        mixed: mixed.finish(),
        anywhere: anywhere.finish(),
        coverage: coverage.finish(),
        cpm: cpm.finish(),
        percent: percent.finish(),
        currency: currency.finish(),
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

  return { add, withhold, finish }
}
