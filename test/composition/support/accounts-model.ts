/**
 * A plain reading of what callers and their accounts are to be shown: who was told what by which agent, what providers and the
 * policy say of it, and whose price and key each is. It is kept beside the real thing and shares nothing with it.
 */
import { hash } from 'node:crypto'
import type { Provider } from './scripted-strangers.js'
import {
  EVERYBODY,
  type Offer,
  OPEN_SEED,
  type ProviderFile,
  type Spoken,
  spokenAgent,
  type Whose,
  whoseOf,
} from './spoken-agents.js'

export const DOMAINS = ['alpha.example', 'beta.example'] as const satisfies readonly Provider[]
export const DAY = 24 * 3_600_000

export type Policy = 'strict' | 'lenient' | 'observe'

/** What the configuration sends to one agent in an account's name. */
export type Reference = { account?: string | undefined; token?: string | undefined }

export type Buyer = {
  id: string
  key: string
  /** Whether the configuration names it. */
  isThere: boolean
  /** Whether it may see activation keys. */
  seesKeys: boolean
  /** Its one account, by the name of the agent; undefined: it has none. */
  account: ReadonlyMap<string, Reference> | undefined
}

/** What was read for somebody: rows of its own, or the word that it pays the rate card. `unsure`: it may have been kept, or not. */
type Held = readonly Offer[] | 'card' | 'unsure' | undefined

export type Model = {
  agents: readonly Spoken[]
  files: Map<string, ProviderFile>
  /** What is known of each provider: the file that is held, or why there is none. */
  known: Map<string, ProviderFile>
  buyers: readonly Buyer[]
  policy: Policy
  exceptions: ReadonlyMap<string, Policy>
  /** By agent and scope. */
  held: Map<string, Held>
  /** Who was ever offered a price or a key, by agent and whose it is. */
  owners: Map<string, Set<string>>
  numbers: number
}

const scopeKey = (agent: Spoken, buyer?: Buyer) => `${agent.name} ${buyer?.id ?? EVERYBODY}`
export const ownerOf = (agent: Spoken, whose: Whose) => `${agent.name}/${whose}`

export function createModel(): Model {
  const agents = [spokenAgent('north'), spokenAgent('south'), spokenAgent('quiet', true)]
  const buyer = (id: string, account?: ReadonlyMap<string, Reference>): Buyer => ({
    ...{ id, key: `key-of-${id}`, isThere: true, seesKeys: id !== 'plain', account },
  })
  return {
    agents,
    files: new Map(DOMAINS.map((domain) => [domain, { kind: 'away' }])),
    known: new Map(DOMAINS.map((domain) => [domain, { kind: 'away' }])),
    buyers: [
      buyer('plain'),
      buyer('ada', new Map([['north', { account: 'gold' }]])),
      buyer(
        'bob',
        new Map([
          ['north', { account: 'silver' }],
          ['quiet', { token: 't1' }],
        ]),
      ),
    ],
    policy: 'strict',
    exceptions: new Map(),
    held: new Map(),
    owners: new Map(),
    numbers: 0,
  }
}

export function configOf({ agents, buyers, policy, exceptions }: Model): object {
  const byName = <T>(account: Buyer['account'], value: (reference: Reference) => T | undefined) =>
    Object.fromEntries(
      [...(account ?? [])].flatMap(([name, reference]) => {
        const found = value(reference)
        return found === undefined ? [] : [[name, found]]
      }),
    )
  return {
    upstreams: agents.map(({ name, url, briefOnly }) => ({
      ...{ id: name, url, protocol: 'mcp', ...(briefOnly && { seeds: [OPEN_SEED] }) },
    })),
    defaults: { refresh: '1m', drop_after: '24h' },
    authorization: {
      ...{ policy, refresh: '1m' },
      providers: Object.fromEntries([...exceptions].map(([domain, one]) => [domain, { policy: one }])),
    },
    callers: {
      anonymous: 'metadata',
      rate_limit: { per_second: 1e6, burst: 1e6 },
      keys: buyers
        .filter(({ isThere }) => isThere)
        .map(({ id, key, seesKeys, account }) => ({
          ...{ id, token_sha256: hash('sha256', key, 'hex') },
          ...(seesKeys && { destinations: [{ type: 'platform', platform: 'the-trade-desk' }] }),
          ...(account && {
            accounts: { own: byName(account, ({ account: one }) => one && { account_id: one }) },
          }),
          credentials: byName(account, ({ token }) => token && { type: 'bearer', token }),
        })),
    },
  }
}

/** A caller as it asks: with its account, or without. */
export type Reading = { name: string; buyer?: Buyer; asAccount: boolean }

export const readings = ({ buyers }: Model): Reading[] => [
  { name: 'anonymous', asAccount: false },
  ...buyers.flatMap((buyer) => [
    { name: buyer.id, buyer, asAccount: false },
    ...(buyer.account ? [{ name: `${buyer.id} as its account`, buyer, asAccount: true }] : []),
  ]),
]

/** Whom an agent takes this account for; undefined where the configuration sends nothing of it there. */
export function whoseAt({ account }: Buyer, { name }: Spoken): Whose | undefined {
  const { account: id, token } = account?.get(name) ?? {}
  return id === undefined && token === undefined ? undefined : whoseOf(id, token)
}

/** What a row says of a provider's signal may be shown: the verdict on its offer. */
type Verdict = 'authorized' | 'unverifiable' | 'unauthorized'

function verdictOn({ known }: Model, { name }: Spoken, { provider, at }: Offer): Verdict {
  const file = provider && known.get(provider)
  if (!provider || !file) return 'authorized'
  if (file.kind !== 'serves') return 'unverifiable'
  return file.grants.get(name)?.includes(`s${at}`) ? 'authorized' : 'unauthorized'
}

function isPublished({ policy, exceptions }: Model, { provider }: Offer, verdict: Verdict): boolean {
  const own = provider && exceptions.get(provider)
  const inForce = own ?? policy
  return (
    verdict === 'authorized' || inForce === 'observe' || (inForce === 'lenient' && verdict === 'unverifiable')
  )
}

/** What an agent says to somebody now. One that answers briefs only is asked for what providers' files grant it. */
function told(model: Model, agent: Spoken, whose: Whose): readonly Offer[] | 'card' {
  const deal = agent.deals.get(whose)
  if (!agent.briefOnly) return deal ?? (whose === EVERYBODY ? agent.card : 'card')
  const isFound = (one: Offer) =>
    !one.provider ||
    (model.known.get(one.provider)?.kind === 'serves' && verdictOn(model, agent, one) === 'authorized')
  return (deal ?? agent.card).filter(isFound)
}

const isUp = ({ fails }: Spoken, whose: Whose) => !fails.has('*') && !fails.has(whose)

/** All has been read that can be. */
export function takeUp(model: Model): void {
  for (const [domain, file] of model.files) if (file.kind !== 'away') model.known.set(domain, file)
  for (const agent of model.agents) {
    for (const buyer of [undefined, ...model.buyers]) {
      const whose = buyer ? whoseAt(buyer, agent) : EVERYBODY
      if (whose === undefined || buyer?.isThere === false || !isUp(agent, whose)) continue
      const now = told(model, agent, whose)
      const key = scopeKey(agent, buyer)
      // Nothing found by questions alone, where nothing was found before, says nothing.
      const isNothing = agent.briefOnly && now.length === 0 && !Array.isArray(model.held.get(key))
      if (!isNothing) model.held.set(key, now)
    }
  }
}

/** More than a day has passed: what was not confirmed meanwhile is gone. */
export function outlive(model: Model): void {
  for (const [domain, file] of model.files) if (file.kind === 'away') model.known.set(domain, file)
  for (const agent of model.agents) {
    for (const buyer of [undefined, ...model.buyers]) {
      const whose = buyer ? whoseAt(buyer, agent) : EVERYBODY
      if (whose !== undefined && !isUp(agent, whose)) model.held.delete(scopeKey(agent, buyer))
    }
  }
}

/** Another configuration: what was read for another account is not this one's. */
export function redefine(model: Model, buyer: Buyer, change: Partial<Buyer>): void {
  const wasAt = new Map(
    model.agents.map((agent) => [agent, buyer.isThere ? whoseAt(buyer, agent) : undefined]),
  )
  Object.assign(buyer, change)
  for (const agent of model.agents) {
    const whose = buyer.isThere ? whoseAt(buyer, agent) : undefined
    if (whose === wasAt.get(agent)) continue
    model.held.set(scopeKey(agent, buyer), whose === undefined ? undefined : 'unsure')
  }
}

export type Shown = {
  /** By agent, with its verdict. */
  offers: string[]
  prices: number[]
  isLive: boolean
  keys: string[]
}

const nameOf = (agent: Spoken, { provider, at }: Offer) =>
  `${provider ?? agent.url} ${provider ? 's' : 'own_'}${at}`

export type Expected = {
  rows: Map<string, Shown>
  scope: 'public' | 'account'
  /** Agents of which it is not known what they offer to the account. */
  unread: string[]
  /** It depends on what was kept. */
  isUnsure: boolean
}

type Layer = { rows: Map<string, Shown>; unread: string[]; isUnsure: boolean }

function layerOf(model: Model, buyer?: Buyer): Layer {
  const given = new Map<string, { agent: Spoken; offer: Offer; verdict: Verdict }[]>()
  const unread: string[] = []
  let isUnsure = false
  for (const agent of model.agents) {
    const everybodys = model.held.get(scopeKey(agent))
    const isRead = buyer && whoseAt(buyer, agent) !== undefined
    const own = isRead ? model.held.get(scopeKey(agent, buyer)) : 'card'
    if (own === undefined) unread.push(agent.name)
    isUnsure ||= own === 'unsure' || everybodys === 'unsure'
    const rows = typeof own === 'object' ? own : everybodys
    for (const offer of typeof rows === 'object' ? rows : []) {
      const verdict = verdictOn(model, agent, offer)
      if (!isPublished(model, offer, verdict)) continue
      const name = nameOf(agent, offer)
      given.set(name, [...(given.get(name) ?? []), { agent, offer, verdict }])
    }
  }
  const rows = new Map(
    [...given].map(([name, all]): [string, Shown] => {
      const authorized = all.filter(({ verdict }) => verdict === 'authorized')
      const counting = authorized.length > 0 ? authorized : all
      const keys = counting.flatMap(({ offer: { key } }) => (key === undefined ? [] : [key]))
      return [
        name,
        {
          offers: counting
            .map(
              ({ agent, offer, verdict }) => `${agent.name} ${offer.provider ? verdict : 'not_applicable'}`,
            )
            .sort(),
          prices: counting.map(({ offer }) => offer.cpm).sort((a, b) => a - b),
          isLive: keys.length > 0,
          keys: keys.sort(),
        },
      ]
    }),
  )
  return { rows, unread, isUnsure }
}

/** What a reader is to be shown once all is settled. */
export function expectedOf(model: Model, { buyer, asAccount }: Reading): Expected {
  const shownTo = ({ rows }: Layer) =>
    JSON.stringify(
      [...rows].sort().map(([name, shown]) => [name, { ...shown, keys: buyer?.seesKeys ? shown.keys : [] }]),
    )
  const open = layerOf(model)
  if (!asAccount) return { ...open, scope: 'public' }
  const own = layerOf(model, buyer)
  const isSame = own.unread.length === 0 && shownTo(own) === shownTo(open)
  return { ...own, scope: isSame ? 'public' : 'account', isUnsure: own.isUnsure || open.isUnsure }
}

/** Whose prices and keys a reader may see: everybody's, and its account's. */
export function mayRead(model: Model, { buyer, asAccount }: Reading, thing: string): boolean {
  const owners = model.owners.get(thing) ?? new Set()
  return model.agents.some((agent) => {
    const whose = asAccount && buyer ? whoseAt(buyer, agent) : undefined
    return owners.has(ownerOf(agent, EVERYBODY)) || (whose !== undefined && owners.has(ownerOf(agent, whose)))
  })
}
