/**
 * The domains of providers: which can be one, which urls speak for them, which of those that upstreams name are looked
 * at (docs/protocol.md#provider-files), and by which of the processes that share a storage. Rows may name any provider, so an
 * upstream that invents domains uses up only its own share. All domains fall into a few shares of the processes, so that
 * thousands of providers need only a few leases.
 */
import { domainToASCII } from 'node:url'
import { parse } from 'tldts'
import { textHash } from '../../process/remembered.js'
import type { Sharing, Turn, Turns } from '../../upstreams/rows/storage.js'

const LABELS = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/
const NOT_IN_A_NAME = /[\s/?#\\%@:[\]]/ // the platform's conversion drops or decodes these characters and does not refuse them
const PRIVATE = { allowPrivateDomains: true } // two tenants of one hosting platform are not one provider
const MAX_PROVIDERS = 50_000 // in all: what one process can keep current
const MAX_TOLD = 10_000 // rejected domains that explain can still name
const MAX_REMEMBERED = 200_000 // spellings read before
const SHARES = 32
const PREFIX = 'provider/'
/** So many providers in a row that did not answer: more likely this process is cut off than all of them are down. */
const SILENT = 3

/** The domain in lower-case A-labels; undefined for addresses, single labels, public suffixes and malformed names. */
export function providerDomain(text: string): string | undefined {
  if (NOT_IN_A_NAME.test(text)) return undefined
  const domain = domainToASCII(text.endsWith('.') ? text.slice(0, -1) : text)
  if (domain.length > 253 || !LABELS.test(domain)) return undefined
  const { isIp, domain: registrable } = parse(domain, PRIVATE)
  return isIp || !registrable ? undefined : domain
}

/** The registrable domain: all subdomains of it belong to one owner. */
export function registrableDomain(domain: string): string {
  return parse(domain, PRIVATE).domain ?? domain
}

/** The url at which the domain publishes its file. */
export function wellKnownUrl(domain: string): string {
  return `https://${domain}/.well-known/adagents.json`
}

/** Whether the url is https and its host lies in the registrable domain of `domain`. */
export function speaksFor(url: string, domain: string): boolean {
  if (!url.startsWith('https://')) return false
  const registrable = parse(url, PRIVATE).domain
  return registrable !== null && registrable === parse(domain, PRIVATE).domain
}

/** The domains that each upstream (canonical agent url) names. */
export type NamedDomains = ReadonlyMap<string, readonly string[]>

/**
 * Whose agent it is: urls cost nothing, so all of one registrable domain share what one owner may take, and so do all ports of an
 * address.
 */
function ownerOf(agentUrl: string): string {
  const { domain, hostname } = parse(agentUrl, PRIVATE)
  return domain ?? hostname ?? agentUrl
}

export type Wanted = {
  /** The owners of the upstreams that name each domain. */
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

/** Takes from each list in turn. */
function* inTurn(lists: Iterable<readonly string[]>): Generator<string> {
  const left = [...lists].filter(({ length }) => length > 0)
  for (let turn = 0; left.length > 0; turn += 1) {
    let kept = 0
    for (const list of left) {
      yield list[turn] as string
      if (turn + 1 < list.length) left[kept++] = list
    }
    left.length = kept
  }
}

/** The items in groups, each group in the order of the items. */
function groupsBy<T>(items: Iterable<T>, nameOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const name = nameOf(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

/**
 * Reorders the list so that registrable domains take turns: thousands of subdomains of one leave room for the others.
 */
const bySite = (domains: readonly string[]) => [...inTurn(groupsBy(domains, registrableDomain).values())]

function shareOfUpstream(
  domains: readonly string[],
  { perUpstream, isHeld }: WantedOptions,
): readonly string[] {
  if (domains.length <= perUpstream) return domains
  const held = domains.filter(isHeld)
  const others = domains.filter((domain) => !isHeld(domain))
  return [...bySite(held), ...bySite(others)].slice(0, perUpstream)
}

/** Until all places are taken, owners take turns, so one that names few domains gets all of them. */
function choose(shares: readonly { owner: string; share: readonly string[] }[]): Set<string> {
  const chosen = new Set<string>()
  const owned = groupsBy(shares, ({ owner }) => owner)
  const lists = [...owned.values()].map((own) => [...new Set(inTurn(own.map(({ share }) => share)))])
  for (const domain of inTurn(lists)) {
    if (chosen.size >= MAX_PROVIDERS) break
    chosen.add(domain)
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
      return { owner: ownerOf(upstream), domains: [...domains] }
    })
    const chosen = choose(
      byUpstream.map(({ owner, domains }) => ({ owner, share: shareOfUpstream(domains, options) })),
    )
    const owners = new Map<string, string[]>()
    const refused = new Set<string>()
    for (const { owner, domains } of byUpstream) {
      for (const domain of domains) {
        const known = owners.get(domain)
        if (known) {
          if (!known.includes(owner)) known.push(owner)
        } else if (chosen.has(domain)) owners.set(domain, [owner])
        else if (refused.size < MAX_TOLD) refused.add(domain)
      }
    }
    return { owners, bad, refused }
  }

  return { domainOf, wantedOf }
}

const shareOf = (domain: string) => `providers/${textHash(domain) % SHARES}`

/** Divides the providers among processes. `sharing`: undefined when this process is alone, and then every turn is its own. */
export function createShares(turns: Turns, sharing: Sharing | undefined) {
  const all = Array.from({ length: SHARES }, (_, share) => `providers/${share}`)
  const silent = new Set<string>()
  turns.want('providers', all)

  /** Leaves every share to the other processes, which may be able to reach the providers. */
  async function passAll(): Promise<void> {
    for (const share of all) if (turns.turn(share)) await sharing?.pass(share)
  }

  return {
    /** Undefined when another process looks at it. */
    turn: (domain: string): Turn | undefined => turns.turn(shareOf(domain)),
    onTurns: turns.onTurns,
    /**
     * Tells the other processes that it was looked at and the result is saved. `answered`: whether the provider answered
     * at all.
     */
    async looked(domain: string, turn: Turn, answered: boolean): Promise<void> {
      await sharing?.tell(`${PREFIX}${domain}`, 'looked', turn)
      if (answered) return silent.clear()
      silent.add(domain)
      if (silent.size < SILENT) return
      silent.clear()
      await passAll()
    },
    hear(listener: (domain: string) => void): void {
      sharing?.hear(PREFIX, (name) => listener(name.slice(PREFIX.length)))
    },
  }
}
