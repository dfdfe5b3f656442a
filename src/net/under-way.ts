/**
 * Bytes of answers that are being read, of all strangers together. Each answer has a bound of its own, and thousands of
 * them at once would fill the memory all the same. Beyond the bound the largest answer is given up, under the
 * registrable domain that has most under way: whoever owns one can have any number of hosts.
 */
import { getDomain } from 'tldts'

/** What holds when nothing else is said (docs/configuration.md). */
export const UNDER_WAY_BYTES = 512 * 1024 ** 2

/** One answer that is being read. */
export type BodyReading = {
  grew(bytes: number): void
  /** It has come whole, or will not come. */
  end(): void
}

export type UnderWay = {
  /** `giveUp`: it takes too much of what there is, and must end. */
  begin(url: URL, giveUp: () => void): BodyReading
  bytes(): number
  /** Answers that were given up. */
  givenUp(): number
}

type Entry = { domain: string; bytes: number; giveUp(): void }

function largest(entries: Iterable<Entry>): Entry | undefined {
  let most: Entry | undefined
  for (const entry of entries) if (!most || entry.bytes > most.bytes) most = entry
  return most
}

/** `limit` gives the bound in bytes that holds when it is asked. */
export function createUnderWay(limit: () => number): UnderWay {
  const domains = new Map<string, { bytes: number; entries: Set<Entry> }>()
  let total = 0
  let givenUp = 0

  function count(entry: Entry, bytes: number): void {
    const domain = domains.get(entry.domain) ?? { bytes: 0, entries: new Set() }
    domains.set(entry.domain, domain)
    domain.entries.add(entry)
    domain.bytes += bytes
    entry.bytes += bytes
    total += bytes
  }

  function forget(entry: Entry): void {
    const domain = domains.get(entry.domain)
    if (!domain?.entries.delete(entry)) return
    total -= entry.bytes
    domain.bytes -= entry.bytes
    if (domain.entries.size === 0) domains.delete(entry.domain)
  }

  function makeRoom(): void {
    const greediest = [...domains.values()].reduce((most, one) => (one.bytes > most.bytes ? one : most))
    const entry = largest(greediest.entries)
    if (!entry) return
    givenUp += 1
    forget(entry)
    entry.giveUp()
  }

  return {
    begin({ hostname }, giveUp) {
      const domain = getDomain(hostname, { allowPrivateDomains: true }) ?? hostname
      const entry: Entry = { domain, bytes: 0, giveUp }
      count(entry, 0)
      return {
        grew(bytes) {
          count(entry, bytes)
          while (total > limit()) makeRoom()
        },
        end: () => forget(entry),
      }
    },
    bytes: () => total,
    givenUp: () => givenUp,
  }
}
