/**
 * Which signals a tuple asks for, and what their content hashes to. Filters read columns, never rows.
 * Prices that a reader may not see never decide what it gets: that would tell them.
 */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { matchesDestination } from '../merge/deployments.js'
import type { Criteria } from './canonical.js'
import { digestText } from './digest.js'
import { WORDS } from './keys.js'
import type { Snapshot } from './snapshot.js'

export type View = {
  /** Entries, in key order. */
  readonly entries: Uint32Array
  /** Digests of what these rows say. */
  readonly structure: string
  readonly pricing: string
}

type Test = (entry: number) => boolean

/** Numbers of the words that pass, as flags. */
function flags(words: readonly string[], passes: (word: string) => boolean): Uint8Array {
  return Uint8Array.from(words, (word) => (passes(word) ? 1 : 0))
}

/** One flag for each destination of the snapshot: whether it is one of the asked. */
export function destinationFlags({ deployments }: Snapshot, asked: readonly string[]): Uint8Array {
  return flags(deployments.destinations, (deployed) => asked.some((one) => matchesDestination(deployed, one)))
}

/** One flag for each set of countries: whether it allows one of the asked. No set: no bound. */
function countryFlags({ facts }: Snapshot, asked: readonly string[]): Uint8Array {
  return flags(
    facts.countrySets,
    (set) => set === '' || set.split(',').some((country) => asked.includes(country)),
  )
}

function anyDeployment(snapshot: Snapshot, wanted: Uint8Array): Test {
  const { at, destination } = snapshot.deployments
  return (entry) => {
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (wanted[destination[one] as number]) return true
    }
    return false
  }
}

function tests(snapshot: Snapshot, criteria: Criteria, seesPrices: boolean): Test[] {
  const { facts } = snapshot
  const { types, providers, maxCpm, maxPercent, minCoverage, destinations, countries } = criteria
  const found: Test[] = []
  if (types) {
    const wanted = flags(SIGNAL_TYPES, (type) => types.includes(type))
    found.push((entry) => wanted[facts.type[entry] as number] === 1)
  }
  if (providers) {
    const byName = flags(facts.providers, (name) => providers.includes(name))
    const byDomain = flags(facts.domains, (domain) => providers.includes(domain))
    found.push(
      (entry) =>
        byName[facts.provider[entry] as number] === 1 || byDomain[facts.domain[entry] as number] === 1,
    )
  }
  // Excludes only what has such options and all of them above: NaN, no option, is not above anything.
  if (maxCpm !== undefined && seesPrices) found.push((entry) => !((facts.cpm[entry] as number) > maxCpm))
  if (maxPercent !== undefined && seesPrices) {
    found.push((entry) => !((facts.percent[entry] as number) > maxPercent))
  }
  // The scalar decides (specification, Filters); a signal that does not state it cannot be shown to reach a minimum.
  if (minCoverage !== undefined) found.push((entry) => (facts.coverage[entry] as number) >= minCoverage)
  if (countries) {
    const allowed = countryFlags(snapshot, countries)
    found.push((entry) => allowed[facts.countries[entry] as number] === 1)
  }
  if (destinations) found.push(anyDeployment(snapshot, destinationFlags(snapshot, destinations)))
  return found
}

function digestOf(column: Uint32Array, entries: Uint32Array): string {
  const words = new Uint32Array(entries.length * WORDS)
  entries.forEach((entry, at) => {
    for (let word = 0; word < WORDS; word += 1)
      words[at * WORDS + word] = column[entry * WORDS + word] as number
  })
  return digestText(words)
}

/** The signals that pass every criterion. Without a criterion: the snapshot itself, at no cost. */
export function viewOf(snapshot: Snapshot, criteria: Criteria, seesPrices: boolean): View {
  const all = tests(snapshot, criteria, seesPrices)
  const { shown, structure, pricing, digests } = snapshot
  if (all.length === 0) return { entries: shown, structure, pricing }
  const entries = shown.filter((entry) => all.every((passes) => passes(entry)))
  return {
    entries,
    structure: digestOf(digests.structure, entries),
    pricing: digestOf(digests.pricing, entries),
  }
}
