/**
 * What a feed must say, whatever its parts did and in whatever order: a model of the scripted world, commands that change
 * both, and the comparison of every reader's answer with it.
 */
import fc from 'fast-check'
import {
  type Agent,
  DEAL,
  type ListingMode,
  lacks,
  ownRow,
  type Scripted,
  shiftableClock,
  startScripted,
} from './scripted.js'

/** Rows of one upstream at one time; the price names the version, so that a mixture shows. */
export type Version = { count: number; cpm: number }
const NOTHING: Version = { count: 0, cpm: 0 }

type Scope = {
  /** What the agent offers now; undefined for an account: the rate card. */
  offered: Version | undefined
  /** What was read of it last: `unread` when nothing was, `either` when a start may have swept it. */
  held: Version | 'card' | 'unread' | 'either'
  /** What may be shown until the world has settled. */
  recent: Version[]
  answers: boolean
}

type ModelAgent = { agent: Agent; everybody: Scope; gold: Scope }

type Model = {
  agents: ModelAgent[]
  statics: Set<number>
  deals: Set<number>
  /** What the registry would list, what it does, and what of it was taken up. */
  listed: Set<number>
  mode: ListingMode
  takenUp: Set<number>
  /** Since the last start, what nobody needs has not been forgotten yet: it is once the registry has answered. */
  sweepDue: boolean
  versions: number
  paces: number
}

type Real = { world: Scripted; shift(ms: number): void; steps: { count: number } }

function createModel({ agents }: Scripted): Model {
  const scope = (): Scope => ({ offered: undefined, held: 'unread', recent: [], answers: true })
  return {
    agents: agents.map((agent) => ({ agent, everybody: { ...scope(), offered: NOTHING }, gold: scope() })),
    statics: new Set([0]),
    deals: new Set([0]),
    listed: new Set([1]),
    mode: 'lists',
    takenUp: new Set(),
    sweepDue: true,
    versions: 0,
    paces: 0,
  }
}

const roster = ({ statics, takenUp }: Model) => new Set([...statics, ...takenUp])

function settingsOf({ agents, statics, deals, paces }: Model, { registry }: Scripted) {
  const at = (one: number) => (agents[one] as ModelAgent).agent
  return {
    statics: [...statics].map((one) => ({ id: at(one).name, agent: at(one) })),
    registries: [registry.url],
    deals: [...deals].map(at),
    pace: { refreshMs: 150, timeoutMs: 1_500 + paces, pageSize: 40 + (paces % 40) },
  }
}

type Seen = { versions: Map<string, Version[]>; lacks: string; scope: unknown }

/** Every row of one walk, by the agent that offers it. */
async function read({ world }: Real, input: object): Promise<Seen> {
  const pages = await world.walk(input)
  const versions = new Map<string, Version[]>()
  for (const { ext, pricing_options: [option] = [] } of pages.flatMap(({ signals = [] }) => signals)) {
    const { agent_url: url } = ext.tributary.offers[0] as { agent_url: string }
    const { cpm } = option as unknown as { cpm: number }
    const known = versions.get(url) ?? []
    const version = known.find((each) => each.cpm === cpm)
    if (version) version.count += 1
    else versions.set(url, [...known, { count: 1, cpm }])
  }
  return { versions, lacks: pages.map(lacks).join('\n'), scope: pages[0]?.cache_scope }
}

const same = (a: Version, b: Version) => a.count === b.count && (a.count === 0 || a.cpm === b.cpm)
const shown = ({ versions }: Seen, { agent }: ModelAgent): Version[] => versions.get(agent.url) ?? [NOTHING]

function namesIn(seen: Seen, { world }: Real, { agent }: ModelAgent): boolean {
  const status = world
    .federation()
    .statuses()
    .find(({ url }) => url === agent.url)
  return status !== undefined && seen.lacks.includes(status.id)
}

/** What is wrong with an answer that may come from any time since the world had settled last. */
function fault(seen: Seen, one: ModelAgent, real: Real, allowed: readonly Version[], steady: boolean) {
  const [version = NOTHING, mixed] = shown(seen, one)
  if (mixed) return `${one.agent.name} is shown in two versions at once`
  if (allowed.some((each) => same(each, version))) return undefined
  if (!steady || namesIn(seen, real, one)) return undefined
  return `${one.agent.name} has ${JSON.stringify(version)} in an answer that does not name it, not one of ${JSON.stringify(allowed)}`
}

/** Readers are asked at any time: what they get is whole, or names what it lacks. `steady`: who was there all the time. */
async function checkAnyTime(model: Model, real: Real, steady: ReadonlySet<number>): Promise<void> {
  const open = await read(real, {})
  const deal = await read(real, DEAL)
  for (const [at, one] of model.agents.entries()) {
    const { everybody, gold } = one
    const isSteady = steady.has(at)
    const openFault = fault(open, one, real, everybody.recent, isSteady)
    const isGold = model.deals.has(at) && gold.offered !== undefined && isSteady
    // Until a first deal has been read, the account was rightly told that it pays what everybody does.
    const allowed =
      isGold && gold.held !== 'card' && gold.held !== 'either'
        ? gold.recent
        : [...everybody.recent, ...gold.recent]
    const dealFault = fault(deal, one, real, allowed, isSteady)
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

function expectedOf(scope: Scope): Version[] {
  if (scope.held === 'either') return [NOTHING, ...scope.recent]
  return [scope.held === 'unread' || scope.held === 'card' ? NOTHING : scope.held]
}

function expectedForAccount(model: Model, at: number, { everybody, gold }: ModelAgent): Version[] {
  const asEverybody = expectedOf(everybody)
  if (!model.deals.has(at) || gold.held === 'unread' || gold.held === 'card') return asEverybody
  return gold.held === 'either' ? [...asEverybody, ...gold.recent] : [gold.held]
}

/** Why the world has not settled as the model says; undefined once it has. */
async function difference(model: Model, real: Real): Promise<string | undefined> {
  const there = roster(model)
  const urls = new Set(
    real.world
      .federation()
      .statuses()
      .map(({ url }) => url),
  )
  const strayed = model.agents.find(({ agent }, at) => urls.has(agent.url) !== there.has(at))
  if (strayed) return `${strayed.agent.name} is in one roster and not in the other`
  const [open, deal] = [await read(real, {}), await read(real, DEAL)]
  for (const [at, one] of model.agents.entries()) {
    for (const [who, seen, expected] of [
      ['everybody', open, expectedOf(one.everybody)],
      ['the account', deal, expectedForAccount(model, at, one)],
    ] as const) {
      const wanted = there.has(at) ? expected : [NOTHING]
      const [version = NOTHING] = shown(seen, one)
      if (!wanted.some((each) => same(each, version))) {
        return `${one.agent.name} for ${who}: ${JSON.stringify(version)}, not one of ${JSON.stringify(wanted)}`
      }
      const isUnread = there.has(at) && one.everybody.held === 'unread'
      if (isUnread && !namesIn(seen, real, one))
        return `${one.agent.name} is missing and not named for ${who}`
    }
    const isVouched = model.mode === 'lists' && model.listed.size > 0
    const isUp = there.has(at) && one.everybody.answers && isVouched
    if (isUp && namesIn(open, real, one)) return `${one.agent.name} is named: ${open.lacks}`
    const unknown = there.has(at) && model.deals.has(at) && one.gold.held === 'unread'
    if (unknown && (deal.scope !== 'account' || !namesIn(deal, real, one))) {
      return `the account is not told that ${one.agent.name} is unread: ${deal.lacks}`
    }
  }
  return undefined
}

/** What was read of nobody's scopes may be forgotten, or not yet. */
function sweep(model: Model): void {
  const there = roster(model)
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    if (!there.has(at) && everybody.held !== 'unread') everybody.held = 'either'
    const isRead = there.has(at) && model.deals.has(at)
    if (!isRead && gold.held !== 'unread') gold.held = 'either'
  }
}

/** What Tributary has read once it has settled. */
function takeUp(model: Model): void {
  if (model.mode === 'lists' && model.listed.size > 0) model.takenUp = new Set(model.listed)
  const there = roster(model)
  if (model.sweepDue) sweep(model)
  if (model.mode === 'lists' && model.listed.size > 0) model.sweepDue = false
  for (const [at, { everybody, gold }] of model.agents.entries()) {
    if (!there.has(at) || !everybody.answers) continue
    everybody.held = everybody.offered ?? NOTHING
    if (model.deals.has(at) && gold.answers) gold.held = gold.offered ?? 'card'
  }
}

/** Waits until every reader is told what the model says; time is moved on, so that no backoff is waited for. */
async function settle(model: Model, real: Real): Promise<void> {
  takeUp(model)
  const end = Date.now() + 15_000
  for (let why = await difference(model, real); why; why = await difference(model, real)) {
    if (Date.now() > end) throw new Error(`it never settled: ${why}`)
    real.shift(200)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  for (const { everybody, gold } of model.agents) {
    everybody.recent = expectedOf(everybody)
    gold.recent = typeof gold.held === 'object' ? [gold.held] : gold.held === 'either' ? gold.recent : []
  }
}

type Command = fc.AsyncCommand<Model, Real>

/** Changes model and world, looks at once, and again when all has settled. */
function command(name: string, change: (model: Model, real: Real) => void | Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      const before = roster(model)
      await change(model, real)
      const steady = new Set([...before].filter((at) => roster(model).has(at)))
      try {
        await checkAnyTime(model, real, steady)
        await settle(model, real)
      } catch (error) {
        throw new Error(
          `after ${real.steps.count} changes, the last one "${name}": ${(error as Error).message}`,
        )
      }
      real.steps.count += 1
    },
    toString: () => name,
  }
}

function offer(at: number, count: number, whom: 'everybody' | 'gold'): Command {
  return command(`a${at} offers ${count} rows to ${whom}`, (model) => {
    const one = model.agents[at] as ModelAgent
    model.versions += 1
    const version = { count, cpm: model.versions }
    const rows = Array.from({ length: count }, (_, n) => ownRow(one.agent.url, n, version.cpm))
    one[whom].offered = version
    one[whom].recent.push(version)
    if (whom === 'gold') one.agent.offerGold(rows)
    else one.agent.offer(rows)
  })
}

const toggled = (set: ReadonlySet<number>, at: number) =>
  set.has(at) ? new Set([...set].filter((one) => one !== at)) : new Set([...set, at])

function listIn({ agents, listed }: Model, { world }: Real): void {
  world.registry.list([...listed].map((at) => (agents[at] as ModelAgent).agent))
}

const agentAt = fc.nat({ max: 3 })

const changes: fc.Arbitrary<Command>[] = [
  fc.tuple(agentAt, fc.nat({ max: 9 })).map(([at, count]) => offer(at, count, 'everybody')),
  fc.tuple(agentAt, fc.integer({ min: 1, max: 9 })).map(([at, count]) => offer(at, count, 'gold')),
  fc.tuple(agentAt, fc.constantFrom('everybody', 'gold')).map(([at, whom]) =>
    command(`a${at} fails or answers ${whom}`, (model) => {
      const one = model.agents[at] as ModelAgent
      one[whom].answers = !one[whom].answers
      one.agent.behave(one[whom].answers ? 'answers' : 'fails', whom)
    }),
  ),
  agentAt.map((at) =>
    command(`the registry lists a${at}, or not`, (model, real) => {
      model.listed = toggled(model.listed, at)
      listIn(model, real)
    }),
  ),
  fc.constantFrom('lists', 'empty', 'error', 'garbage').map((mode) =>
    command(`the registry: ${mode}`, (model, { world }) => {
      model.mode = mode
      world.registry.behave(mode)
    }),
  ),
  agentAt.map((at) =>
    command(`a${at} is in the configuration, or not`, (model, { world }) => {
      model.statics = toggled(model.statics, at)
      world.apply(settingsOf(model, world))
    }),
  ),
  agentAt.map((at) =>
    command(`the account is known at a${at}, or not`, (model, { world }) => {
      model.deals = toggled(model.deals, at)
      world.apply(settingsOf(model, world))
    }),
  ),
  fc.constant(
    command('other defaults', (model, { world }) => {
      model.paces += 1
      world.apply(settingsOf(model, world))
    }),
  ),
]

const restart: fc.Arbitrary<Command> = fc.constant(
  command('a restart', async (model, real) => {
    const { world } = real
    await world.stop()
    await start(model, real)
  }),
)

/** So many changes of one world, in any order; a restart costs as much as ten of the others. */
export const changesOfOneWorld = (count: number) =>
  fc.array(fc.oneof({ weight: 25, arbitrary: fc.oneof(...changes) }, { weight: 1, arbitrary: restart }), {
    minLength: count,
    maxLength: count,
  })

/** Starts, moving time on so that nobody waits for who fails. */
async function start(model: Model, { world, shift }: Real): Promise<void> {
  model.sweepDue = true
  const { ready } = await world.start(settingsOf(model, world), false)
  let isReady = false
  void ready.then(() => {
    isReady = true
  })
  while (!isReady) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    if (!isReady) shift(100)
  }
}

/** Runs changes over a world of their own; `steps` counts them. */
export async function runChanges(sequence: Iterable<Command>, steps: { count: number }): Promise<void> {
  const { clock, shift } = shiftableClock()
  const teardowns: (() => unknown)[] = []
  const world = await startScripted({ teardown: (task) => teardowns.push(task) }, { agents: 4, clock })
  const real: Real = { world, shift, steps }
  try {
    await fc.asyncModelRun(async () => {
      const model = createModel(world)
      listIn(model, real)
      await start(model, real)
      await settle(model, real)
      return { model, real }
    }, sequence)
  } finally {
    for (const teardown of teardowns) await teardown()
  }
}
