/**
 * Decides which of the domains that upstreams name are looked at. Rows may name any provider, so an upstream that
 * invents domains uses up only its own share.
 */
import { providerDomain, registrableDomain } from './domain.js'

const MAX_PROVIDERS = 50_000 // in all: what one process can keep current
const MAX_TOLD = 10_000 // rejected domains that explain can still name
const MAX_REMEMBERED = 200_000 // spellings read before

/** The domains that each upstream (canonical agent url) names. */
export type NamedDomains = ReadonlyMap<string, readonly string[]>

export type Wanted = {
  /** The upstreams that name each domain. */
  readonly owners: ReadonlyMap<string, readonly string[]>
  /** Names that cannot be a domain. */
  readonly bad: ReadonlySet<string>
  /** Domains that exceed the share of every upstream that names them; cut when they are many. */
  readonly refused: ReadonlySet<string>
}

type WantedOptions = {
  /** How many domains of one upstream are looked at. */
  perUpstream: number
  /** Whether a domain is looked at already: an upstream that names more domains keeps those that it has. */
  isHeld(domain: string): boolean
}

/**
 * Reorders the list so that registrable domains take turns: thousands of subdomains of one leave room for the others.
 */
function inTurns(domains: readonly string[]): string[] {
  const groups = new Map<string, string[]>()
  for (const domain of domains) {
    const name = registrableDomain(domain)
    const group = groups.get(name)
    if (group) group.push(domain)
    else groups.set(name, [domain])
  }
  const lists = [...groups.values()]
  const turns: string[] = []
  for (let turn = 0; turns.length < domains.length; turn += 1) {
    for (const list of lists) if (turn < list.length) turns.push(list[turn] as string)
  }
  return turns
}

function shareOf(domains: readonly string[], { perUpstream, isHeld }: WantedOptions): readonly string[] {
  if (domains.length <= perUpstream) return domains
  const held = domains.filter(isHeld)
  const others = domains.filter((domain) => !isHeld(domain))
  return [...inTurns(held), ...inTurns(others)].slice(0, perUpstream)
}

/** Takes from each share in turn until all places are taken, so an upstream that names few domains gets all of them. */
function choose(shares: readonly (readonly string[])[]): Set<string> {
  const chosen = new Set<string>()
  for (let turn = 0; shares.some((share) => turn < share.length); turn += 1) {
    for (const share of shares) {
      const domain = share[turn]
      if (domain !== undefined && chosen.size < MAX_PROVIDERS) chosen.add(domain)
    }
  }
  return chosen
}

/** Remembers how names were read, and nothing of earlier choices. */
export function createWanted() {
  const read = new Map<string, string | undefined>()

  /**
   * The domain behind a name, cached: converting one takes microseconds, and all names are read again at every change.
   */
  function domainOf(text: string): string | undefined {
    if (read.has(text)) return read.get(text)
    if (read.size >= MAX_REMEMBERED) read.clear()
    const domain = providerDomain(text)
    read.set(text, domain)
    return domain
  }

  function wantedOf(named: NamedDomains, options: WantedOptions): Wanted {
    const bad = new Set<string>()
    const byUpstream = [...named].map(([upstream, texts]) => {
      const domains = new Set<string>()
      for (const text of texts) {
        const domain = domainOf(text)
        if (domain) domains.add(domain)
        else if (bad.size < MAX_TOLD) bad.add(text)
      }
      return { upstream, domains: [...domains] }
    })
    const chosen = choose(byUpstream.map(({ domains }) => shareOf(domains, options)))
    const owners = new Map<string, string[]>()
    const refused = new Set<string>()
    for (const { upstream, domains } of byUpstream) {
      for (const domain of domains) {
        const known = owners.get(domain)
        if (known) known.push(upstream)
        else if (chosen.has(domain)) owners.set(domain, [upstream])
        else if (refused.size < MAX_TOLD) refused.add(domain)
      }
    }
    return { owners, bad, refused }
  }

  return { domainOf, wantedOf }
}
