/**
 * What a scripted world is and what Tributary has read of it, as a model: agents and whom they answer, a registry, a
 * provider's file, an account, and what outlives time and restarts.
 */
import type { Agent } from './scripted-agents.js'
import type { FileMode, ListingMode, Provider } from './scripted-strangers.js'

/** Whose file decides on the provided rows. */
export const PROVIDER: Provider = 'alpha.example'

/** Rows of one upstream at one time; the price names the version, so that a mixture shows. */
export type Version = {
  /** Its own, which no provider has a say in. */
  count: number
  /** Of the provider. */
  provided: number
  cpm: number
}
export const NOTHING: Version = { count: 0, provided: 0, cpm: 0 }

export type Scope = {
  /** What the agent offers now; undefined for an account: the rate card. */
  offered: Version | undefined
  /** What was read of it last: `unread` when nothing was, or is any more, `either` when a start may have swept it. */
  held: Version | 'card' | 'unread' | 'either'
  /** What may be shown until the world has settled. */
  recent: Version[]
  behaviour: 'answers' | 'fails' | 'hangs'
}

export type ModelAgent = { agent: Agent; everybody: Scope; gold: Scope }

export type Model = {
  agents: ModelAgent[]
  statics: Set<number>
  deals: Set<number>
  /** What the registry would list, what it does, and what of it was taken up. */
  listed: Set<number>
  mode: ListingMode
  takenUp: Set<number>
  /** How often the registry had answered when it, or the process that asks it, became another. */
  answersBefore: number
  /** It has listed nobody since: those that it listed before leave when the time comes. */
  listsNobody: boolean
  /** The provider's server, and whether its file is held; `maybe`: nobody has looked since something happened to it. */
  file: FileMode
  document: 'held' | 'none' | 'maybe'
  /** What is known of the provider may still be that it has no file. */
  mayBeGone: boolean
  /** Since the last start, what nobody needs has not been forgotten yet: it is once the registry has answered. */
  sweepDue: boolean
  versions: number
  paces: number
}

export function createModel(agents: readonly Agent[]): Model {
  const scope = (): Scope => ({ offered: undefined, held: 'unread', recent: [], behaviour: 'answers' })
  return {
    agents: agents.map((agent) => ({ agent, everybody: { ...scope(), offered: NOTHING }, gold: scope() })),
    statics: new Set([0]),
    deals: new Set([0]),
    listed: new Set([1]),
    mode: 'lists',
    takenUp: new Set(),
    answersBefore: 0,
    listsNobody: false,
    file: 'serves',
    document: 'none',
    mayBeGone: false,
    sweepDue: true,
    versions: 0,
    paces: 0,
  }
}

/** What a registry calls an agent, which shows what of its listing was taken up. */
export const listedName = ({ name }: Agent) => `${name} as listed`

export const rosterOf = ({ statics, takenUp }: Model) => new Set([...statics, ...takenUp])

/** The registry's answer is a listing, though perhaps of nobody. */
const isListing = ({ mode }: Model) => mode === 'lists' || mode === 'empty'
const listing = ({ mode, listed }: Model) => (mode === 'lists' ? listed : new Set<number>())

/** Its word can be had: it lists somebody, or lists nobody any more. */
export const isVouching = (model: Model) =>
  isListing(model) && (listing(model).size > 0 || model.takenUp.size === 0)

/** Whether rows of an agent are shown to somebody. */
const isProvided = ({ held }: Scope) => typeof held === 'object' && held.provided > 0

/** Whether rows may wait for a file that cannot be read: that there is none would be a decision. */
export const isWaiting = ({ file, document }: Model) =>
  document !== 'held' && file !== 'serves' && file !== 'gone'

/** Whether somebody who is there offers rows of the provider, so that its file is looked at. */
function isProviderNamed(model: Model): boolean {
  const there = rosterOf(model)
  return model.agents.some(({ everybody, gold }, at) => {
    const isDeal = model.deals.has(at) && isProvided(gold)
    return there.has(at) && (isProvided(everybody) || isDeal)
  })
}

export function expectedOf({ held, recent }: Scope): Version[] {
  if (held === 'either') return [NOTHING, ...recent]
  return [held === 'unread' || held === 'card' ? NOTHING : held]
}

export function expectedForAccount(model: Model, at: number): Version[] {
  const { everybody, gold } = model.agents[at] as ModelAgent
  const asEverybody = expectedOf(everybody)
  if (!model.deals.has(at) || gold.held === 'unread' || gold.held === 'card') return asEverybody
  return gold.held === 'either' ? [...asEverybody, ...gold.recent] : [gold.held]
}

/** What was read of nobody's scopes may be forgotten, or not yet. */
function sweep(model: Model): void {
  const there = rosterOf(model)
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    if (!there.has(at) && everybody.held !== 'unread') everybody.held = 'either'
    const isRead = there.has(at) && model.deals.has(at)
    if (!isRead && gold.held !== 'unread') gold.held = 'either'
  }
}

function takeUpListing(model: Model): void {
  model.listsNobody = isListing(model) ? !isVouching(model) : model.listsNobody
  if (!isVouching(model)) return
  model.takenUp = new Set(listing(model))
}

function takeUpFile(model: Model): void {
  const isNamed = isProviderNamed(model)
  if (isNamed && model.file === 'serves') model.document = 'held'
  else if (isNamed && model.file === 'gone') model.document = 'none'
  // Whose file nobody needs is not asked, and what was kept of it may be forgotten.
  else if (!isNamed && model.document === 'held') model.document = 'maybe'
}

/** What Tributary has read once it has settled. */
export function takeUp(model: Model): void {
  takeUpListing(model)
  if (model.sweepDue) sweep(model)
  if (isVouching(model)) model.sweepDue = false
  const there = rosterOf(model)
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    if (!there.has(at) || everybody.behaviour !== 'answers') continue
    everybody.held = everybody.offered ?? NOTHING
    if (model.deals.has(at) && gold.behaviour === 'answers') gold.held = gold.offered ?? 'card'
  }
  takeUpFile(model)
}

/** Whoever answers may be read at any moment, and what was read be shown. */
export function mayBeRead(model: Model): void {
  const there = rosterOf(model)
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    if (!there.has(at) || everybody.behaviour !== 'answers') continue
    everybody.recent.push(everybody.offered ?? NOTHING)
    if (model.deals.has(at) && gold.behaviour === 'answers' && gold.offered) gold.recent.push(gold.offered)
  }
}

/** More time than anything is kept that is not confirmed: whoever does not answer has nothing held of it any more. */
export function outlive(model: Model): void {
  const there = rosterOf(model)
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    const isRead = there.has(at) && everybody.behaviour === 'answers'
    if (!isRead) everybody.held = 'unread'
    if (!isRead || !model.deals.has(at) || gold.behaviour !== 'answers') gold.held = 'unread'
  }
  if (model.listsNobody) model.takenUp = new Set()
  model.listsNobody = false
  if (model.file !== 'serves' && model.document === 'held') model.document = 'maybe'
}

/** What was found out is what there is: it has been looked at since. */
export function settled(model: Model): void {
  if (model.file !== 'gone' && isProviderNamed(model)) model.mayBeGone = false
  for (const { everybody, gold } of model.agents) {
    everybody.recent = expectedOf(everybody)
    gold.recent = typeof gold.held === 'object' ? [gold.held] : gold.held === 'either' ? gold.recent : []
  }
}
