/**
 * Counts the bytes of all answers that are being read. Each answer has its own bound, but thousands of them at once
 * would still fill the memory. Beyond the common bound the largest answer of one registrable domain is given up: the
 * domain with most bytes under way. Domains and not hosts, because the owner of a domain can have any number of hosts.
 */
import { getDomain } from 'tldts'

/** The default bound (docs/configuration.md). */
export const UNDER_WAY_BYTES = 512 * 1024 ** 2

/** One answer that is being read. */
export type BodyReading = {
  grew(bytes: number): void
  /** It is complete, or was given up. */
  end(): void
}

export type UnderWay = {
  /** Registers an answer; `giveUp` is called when it must end because all answers together are too large. */
  begin(url: URL, giveUp: () => void): BodyReading
  bytes(): number
  /** The number of answers that were given up. */
  givenUp(): number
}

type Entry = { domain: string; bytes: number; giveUp(): void }

function largest(entries: Iterable<Entry>): Entry | undefined {
  let most: Entry | undefined
  for (const entry of entries) if (!most || entry.bytes > most.bytes) most = entry
  return most
}

/** `limit` returns the current bound in bytes. */
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
