/** What readers of a scripted world are told, held against its model. */
import type { Federation } from '../../../src/composition/federation.js'
import { DEAL, lacks, type Scripted } from './scripted.js'
import {
  expectedForAccount,
  expectedOf,
  isVouching,
  isWaiting,
  listedName,
  type Model,
  type ModelAgent,
  NOTHING,
  PROVIDER,
  rosterOf,
  type Version,
} from './world-model.js'

type Seen = { versions: Map<string, Version[]>; lacks: string; scope: unknown }

/** Every row of one walk, by the agent that offers it. */
async function read(world: Scripted, input: object): Promise<Seen> {
  const pages = await world.walk(input)
  const versions = new Map<string, Version[]>()
  for (const { ext, signal_ref: ref, pricing_options: [option] = [] } of pages.flatMap(
    ({ signals = [] }) => signals,
  )) {
    const { agent_url: url } = ext.tributary.offers[0] as { agent_url: string }
    const { cpm } = option as unknown as { cpm: number }
    const known = versions.get(url) ?? []
    const version = known.find((each) => each.cpm === cpm) ?? { ...NOTHING, cpm }
    if (ref.scope === 'data_provider') version.provided += 1
    else version.count += 1
    versions.set(url, [...known.filter((each) => each !== version), version])
  }
  return { versions, lacks: pages.map(lacks).join('\n'), scope: pages[0]?.cache_scope }
}

const shown = ({ versions }: Seen, { agent }: ModelAgent): Version[] => versions.get(agent.url) ?? [NOTHING]
const statusOf = (federation: Federation, { agent }: ModelAgent) =>
  federation.statuses().find(({ url }) => url === agent.url)

function namesIn(seen: Seen, world: Scripted, one: ModelAgent): boolean {
  const status = statusOf(world.federation(), one)
  return status !== undefined && seen.lacks.includes(status.id)
}

/** How many rows of the provider may be shown of a version. */
type Provided = 'all' | 'none' | 'any'

function same(a: Version, b: Version, provided: Provided): boolean {
  const counts = { all: [b.provided], none: [0], any: [0, b.provided] }[provided]
  return a.count === b.count && counts.includes(a.provided) && (a.count + a.provided === 0 || a.cpm === b.cpm)
}

/** Rows that are withheld as their provider's file could not be read are named; those of a file that is gone are not. */
function providedAnyTime({ file, mayBeGone }: Model, seen: Seen): Provided {
  return file === 'gone' || mayBeGone || seen.lacks.includes(PROVIDER) ? 'any' : 'all'
}

/** Readers are asked at any time: what they get is whole, or names what it lacks. `steady`: who was there all the time. */
export async function checkAnyTime(
  model: Model,
  world: Scripted,
  steady: ReadonlySet<number>,
): Promise<void> {
  function fault(seen: Seen, one: ModelAgent, allowed: readonly Version[], isSteady: boolean) {
    const [version = NOTHING, mixed] = shown(seen, one)
    if (mixed) return `${one.agent.name} is shown in two versions at once`
    const provided = providedAnyTime(model, seen)
    if (allowed.some((each) => same(version, each, provided))) return undefined
    if (!isSteady || namesIn(seen, world, one)) return undefined
    return `${one.agent.name} has ${JSON.stringify(version)} in an answer that does not name it, not one of ${JSON.stringify(allowed)}`
  }

  const open = await read(world, {})
  const deal = await read(world, DEAL)
  for (const [at, one] of model.agents.entries()) {
    const { everybody, gold } = one
    const isSteady = steady.has(at)
    const openFault = fault(open, one, everybody.recent, isSteady)
    const isGold = model.deals.has(at) && gold.offered !== undefined && isSteady
    // Until a first deal has been read, the account was rightly told that it pays what everybody does.
    const allowed =
      isGold && gold.held !== 'card' && gold.held !== 'either'
        ? gold.recent
        : [...everybody.recent, ...gold.recent]
    const dealFault = fault(deal, one, allowed, isSteady)
    if (openFault ?? dealFault) {
      throw new Error(
        openFault ??
          `the account: ${dealFault}; ${JSON.stringify(gold)}; it was told ${deal.scope} ${deal.lacks}`,
      )
    }
    const hadPrices = isGold && typeof gold.held === 'object'
    if (hadPrices && deal.scope === 'public')
      throw new Error('an account was told public while its prices differ')
  }
}

/** Who is in the roster, and what of the registry's listing was taken up, which the names show. */
function rosterDifference(model: Model, world: Scripted): string | undefined {
  const there = rosterOf(model)
  for (const [at, one] of model.agents.entries()) {
    const { agent } = one
    const name = statusOf(world.federation(), one)?.name
    const plain = there.has(at) ? agent.name : undefined
    const wanted = model.takenUp.has(at) ? listedName(agent) : plain
    if (name !== wanted) return `${agent.name} is ${name} in the roster, not ${wanted}`
  }
  return undefined
}

/** Why the world has not settled as the model says; undefined once it has. */
export async function difference(model: Model, world: Scripted): Promise<string | undefined> {
  // Whoever asks for the second time has taken up the first answer.
  if (world.registry.answers() < model.answersBefore + 2) return 'the registry has not been asked again'
  const strayed = rosterDifference(model, world)
  if (strayed) return strayed
  const there = rosterOf(model)
  const [open, deal] = [await read(world, {}), await read(world, DEAL)]
  if (model.listsNobody && !open.lacks.includes('lists nobody')) return 'nobody is told of the registry'
  const provided = ({ held: 'all', none: 'none', maybe: 'any' } as const)[model.document]
  for (const [at, one] of model.agents.entries()) {
    for (const [who, seen, expected] of [
      ['everybody', open, expectedOf(one.everybody)],
      ['the account', deal, expectedForAccount(model, at)],
    ] as const) {
      const wanted = there.has(at) ? expected : [NOTHING]
      const [version = NOTHING] = shown(seen, one)
      if (!wanted.some((each) => same(version, each, provided))) {
        return `${one.agent.name} for ${who}: ${JSON.stringify(version)}, not one of ${JSON.stringify(wanted)} (its provider's: ${provided})`
      }
      const isNamed = seen.lacks.includes(PROVIDER)
      const isWithheld = wanted.every((each) => each.provided > version.provided)
      if (isWithheld && isNamed === (model.file === 'gone')) {
        return `${one.agent.name} lacks rows for ${who}, its file ${model.file}: ${seen.lacks}`
      }
      const isUnread = there.has(at) && one.everybody.held === 'unread'
      if (isUnread && !namesIn(seen, world, one))
        return `${one.agent.name} is missing and not named for ${who}`
    }
    const isUp = there.has(at) && one.everybody.behaviour === 'answers'
    if (isUp && isVouching(model) && !isWaiting(model) && namesIn(open, world, one)) {
      return `${one.agent.name} is named: ${open.lacks}`
    }
    const unknown = there.has(at) && model.deals.has(at) && one.gold.held === 'unread'
    if (unknown && (deal.scope !== 'account' || !namesIn(deal, world, one))) {
      return `the account is not told that ${one.agent.name} is unread: ${deal.lacks}`
    }
  }
  return undefined
}
