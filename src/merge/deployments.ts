/**
 * Where a signal can be used: the union of its offers' deployments (docs/decisions.md#merging; specification,
 * "Deployment"). A live deployment wins over one that is not live, then the shortest estimate, then upstream order.
 * And where the activation keys of these deployments stand in the listings, so that a reader who may see one gets a copy of
 * those bytes. Parsing a listing for its keys would cost more than all the rest of a row (docs/decisions.md#merging). A key
 * stays in the listing, which is private: it is copied nowhere else.
 */
import { bufferOf, endOfValue } from '../adcp/json.js'
import { check, Type } from '../adcp/schema.js'
import type { ActivationKey, Deployment, Destination } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import { createRecent } from '../process/memory.js'
import type { Offer } from './offer.js'

const NAME = Buffer.from('"activation_key":')
// A snapshot keeps a key's listing and length in 16 bits each (snapshot/columns.ts): a larger number would come to
// stand for another.
const MOST_BYTES = 0xffff // a longer key has no span
const MOST_LISTINGS = 0x10000 // a key in a later listing has no span

export type MergedDeployment = {
  readonly key: string
  /** Index of the offer whose state is published. */
  readonly offer: number
  /** Indexes of all offers that deploy there. */
  readonly offers: readonly number[]
  /** Without its activation key: rows that many readers share never hold keys (docs/decisions.md#callers). */
  readonly deployment: Omit<Deployment, 'activation_key'>
  /** The first key that a live offer gives, in offer order. */
  readonly activationKey?: ActivationKey
}

type Building = Omit<MergedDeployment, 'activationKey'> & {
  offers: number[]
  activationKey?: ActivationKey
}

/** What a strict client accepts. */
const { conforms: isUri } = check<string>(Type.String({ format: 'uri' }))
export const { conforms: isMoment } = check<string>(Type.String({ format: 'date-time' }))

/** Millions of deployments share few agents, so each url is canonicalised once. Empty: a url that must not be published. */
const agents = createRecent<string>(10_000)

/** The canonical spelling of an agent url that a response may carry; undefined for any other. */
function agentOf(url: string): string | undefined {
  const known = agents.get(url)
  if (known !== undefined) return known || undefined
  const canonical = isUri(url) ? canonicalUrl(url) : undefined
  agents.set(url, canonical ?? '')
  return canonical
}

const plain = (text: string) =>
  /[%#]/.test(text) ? text.replaceAll('%', '%25').replaceAll('#', '%23') : text

/** One string per target: `platform:NAME` or `agent:URL`, then `#ACCOUNT`. Undefined for a malformed agent url. */
export function destinationKey(target: Destination): string | undefined {
  const account = target.account === undefined || target.account === null ? '' : `#${target.account}`
  if (target.type === 'platform') return `platform:${plain(target.platform)}${account}`
  const url = agentOf(target.agent_url)
  return url && `agent:${url}${account}`
}

/**
 * Whether a deployment is the requested destination. A request without an account matches every account of the target.
 */
export function matchesDestination(deployed: string, asked: string): boolean {
  if (deployed === asked) return true
  const account = deployed.indexOf('#')
  if (account < 0) return asked.startsWith(`${deployed}#`)
  return asked === deployed.slice(0, account)
}

/** `matchesDestination` for many destinations at once, in the time of one. */
export function destinationMatcher(asked: readonly string[]): (deployed: string) => boolean {
  const exact = new Set(asked)
  const anyAccount = new Set(asked.map((one) => one.split('#', 1)[0] as string))
  return (deployed) => {
    if (exact.has(deployed)) return true
    const account = deployed.indexOf('#')
    return account < 0 ? anyAccount.has(deployed) : exact.has(deployed.slice(0, account))
  }
}

/** The target that a key stands for. */
export function destinationOf(key: string): Destination {
  const [target = '', ...rest] = key.split('#')
  const account = rest.length > 0 ? { account: rest.join('#') } : {}
  const name = target.slice(target.indexOf(':') + 1)
  if (target.startsWith('agent:')) return { type: 'agent', agent_url: name, ...account }
  return { type: 'platform', platform: name.replaceAll('%23', '#').replaceAll('%25', '%'), ...account }
}

function isBetter(candidate: Deployment, held: Omit<Deployment, 'activation_key'>): boolean {
  if (candidate.is_live !== held.is_live) return candidate.is_live
  if (candidate.is_live) return false
  const estimate = (of: Omit<Deployment, 'activation_key'>) =>
    of.estimated_activation_duration_minutes ?? Number.POSITIVE_INFINITY
  return estimate(candidate) < estimate(held)
}

function shown(from: Deployment): Omit<Deployment, 'activation_key'> {
  const { type, account, is_live, estimated_activation_duration_minutes: estimate, deployed_at } = from
  const to: Record<string, unknown> =
    type === 'platform' ? { type, platform: from.platform } : { type, agent_url: from.agent_url }
  if (typeof account === 'string') to.account = account
  to.is_live = is_live
  if (estimate !== undefined) to.estimated_activation_duration_minutes = estimate
  if (is_live && deployed_at !== undefined && isMoment(deployed_at)) to.deployed_at = deployed_at
  return to as Omit<Deployment, 'activation_key'>
}

const liveKey = ({ is_live, activation_key }: Deployment) =>
  (is_live ? activation_key : undefined) ?? undefined

function merged(key: string, offer: number, offers: number[], from: Deployment): Building {
  return { key, offer, offers, deployment: shown(from) }
}

/**
 * The deployments of a row by key, without those whose agent url is malformed. A row that names a target twice is read in the
 * order of what it says: the order in which it says it is no content, so it must not decide which state or which key is given.
 */
function keyed(given: readonly Deployment[]): [key: string, from: Deployment][] {
  const found: [string, Deployment][] = []
  for (const from of given) {
    const key = destinationKey(from)
    if (key !== undefined) found.push([key, from])
  }
  if (found.length < 2 || new Set(found.map(([key]) => key)).size === found.length) return found
  const texts = new Map(given.map((one) => [one, JSON.stringify([shown(one), liveKey(one)])]))
  return found.sort(([, a], [, b]) => ((texts.get(a) as string) < (texts.get(b) as string) ? -1 : 1))
}

/** Sorted by key; `keysOf[i]` are the targets that offer `i` gives. */
export function mergeDeployments(offers: readonly Pick<Offer, 'listing'>[]): {
  deployments: MergedDeployment[]
  keysOf: string[][]
} {
  const best = new Map<string, Building>()
  const keysOf = offers.map((offer, index) => {
    const keys: string[] = []
    for (const [key, deployment] of keyed(offer.listing.deployments)) {
      const held = best.get(key)
      const deployedBy = held?.offers ?? []
      if (deployedBy.at(-1) !== index) {
        deployedBy.push(index)
        keys.push(key)
      }
      const better = !held || isBetter(deployment, held.deployment)
      const one = better ? merged(key, index, deployedBy, deployment) : held
      const activationKey = held?.activationKey ?? liveKey(deployment)
      if (activationKey) one.activationKey = activationKey
      best.set(key, one)
    }
    return keys.length > 1 ? keys.sort() : keys
  })
  const deployments: MergedDeployment[] = [...best.values()]
  if (deployments.length > 1) deployments.sort((a, b) => (a.key < b.key ? -1 : 1))
  return { deployments, keysOf }
}

/** Which of the listings, and where in its bytes. */
export type KeySpan = { readonly listing: number; readonly start: number; readonly bytes: number }

/** Adds what follows each name in a listing, by its text. A name in a string of a stranger adds what is nobody's key. */
function gather(row: Uint8Array, listing: number, found: Map<string, KeySpan>): void {
  const text = bufferOf(row)
  for (let at = text.indexOf(NAME); at >= 0; at = text.indexOf(NAME, at)) {
    const start = at + NAME.byteLength
    at = endOfValue(text, start)
    if (at - start > MOST_BYTES) continue
    const json = text.toString('utf8', start, at)
    if (!found.has(json)) found.set(json, { listing, start, bytes: at - start })
  }
}

/**
 * The span of each deployment's key; undefined where it has none, or where no listing writes it as we would. `rows`: the
 * listings' bytes. A span holds exactly the key's JSON, so it does not matter which deployment it was found at.
 */
export function keySpans(
  deployments: readonly Pick<MergedDeployment, 'activationKey'>[],
  rows: () => readonly Uint8Array[],
): (KeySpan | undefined)[] {
  if (!deployments.some(({ activationKey }) => activationKey)) return []
  const found = new Map<string, KeySpan>()
  for (const [at, row] of rows().slice(0, MOST_LISTINGS).entries()) gather(row, at, found)
  return deployments.map(({ activationKey }) => activationKey && found.get(JSON.stringify(activationKey)))
}
