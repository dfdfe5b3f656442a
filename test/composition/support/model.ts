/**
 * What a feed must say, whatever its parts did and in whatever order: commands that change a scripted world and its model,
 * and the comparison of every reader's answer with the model after each of them.
 */
import fc from 'fast-check'
import { checkAnyTime, difference } from './model-answers.js'
import { type Scripted, type Settings, startPassing, startScripted } from './scripted.js'
import { ownRow, providerRow } from './scripted-agents.js'
import { shiftableClock } from './shiftable-clock.js'
import {
  createModel,
  listedName,
  type Model,
  type ModelAgent,
  mayBeRead,
  outlive,
  PROVIDER,
  rosterOf,
  type Scope,
  settled,
  takeUp,
  type Version,
} from './world-model.js'

type Real = { world: Scripted; shift(ms: number): void; steps: { count: number } }
type Whom = 'everybody' | 'gold'

const DROP_MS = 3_600_000
const MOST_PROVIDED = 3

function settingsOf({ agents, statics, deals, paces }: Model, { registry }: Scripted): Settings {
  const at = (one: number) => (agents[one] as ModelAgent).agent
  return {
    statics: [...statics].map((one) => ({ id: at(one).name, agent: at(one) })),
    registries: [registry.url],
    deals: [...deals].map(at),
    openAfterMs: 5_000,
    pace: {
      refreshMs: 150,
      timeoutMs: 1_500 + paces,
      pageSize: 40 + (paces % 40),
      dropAfterMs: DROP_MS,
    },
    providersMs: 150,
  }
}

/** Waits until every reader is told what the model says; time is moved on, so that no backoff is waited for. */
async function settle(model: Model, { world, shift }: Real): Promise<void> {
  takeUp(model)
  const end = Date.now() + 60_000
  for (let why = await difference(model, world); why; why = await difference(model, world)) {
    if (Date.now() > end) throw new Error(`it never settled: ${why}`)
    shift(200)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  settled(model)
}

type Command = fc.AsyncCommand<Model, Real>

/** Changes model and world, looks at once, and again when all has settled. */
function command(name: string, change: (model: Model, real: Real) => void | Promise<void>): Command {
  return {
    check: () => true,
    async run(model, real) {
      const before = rosterOf(model)
      await change(model, real)
      mayBeRead(model)
      const steady = new Set([...before].filter((at) => rosterOf(model).has(at)))
      try {
        await checkAnyTime(model, real.world, steady)
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

function rowsOf(url: string, at: number, { count, provided, cpm }: Version) {
  const own = Array.from({ length: count }, (_, n) => ownRow(url, n, cpm))
  return [
    ...own,
    ...Array.from({ length: provided }, (_, n) => providerRow(PROVIDER, at * MOST_PROVIDED + n, cpm)),
  ]
}

function offer(at: number, count: number, provided: number, whom: Whom): Command {
  return command(`a${at} offers ${count} and ${provided} rows to ${whom}`, (model) => {
    const one = model.agents[at] as ModelAgent
    model.versions += 1
    const version = { count, provided, cpm: model.versions }
    one[whom].offered = version
    const rows = rowsOf(one.agent.url, at, version)
    if (whom === 'gold') one.agent.offerGold(rows)
    else one.agent.offer(rows)
  })
}

function behave(at: number, whom: Whom, how: Scope['behaviour']): Command {
  return command(`a${at} ${how} ${whom}`, (model) => {
    const one = model.agents[at] as ModelAgent
    one[whom].behaviour = how
    one.agent.behave(how, whom)
  })
}

const toggled = (set: ReadonlySet<number>, at: number) =>
  set.has(at) ? new Set([...set].filter((one) => one !== at)) : new Set([...set, at])

function listIn(model: Model, { world }: Real): void {
  const { agents, listed } = model
  model.answersBefore = world.registry.answers()
  const named = ({ agent }: ModelAgent) => ({ url: agent.url, name: listedName(agent) })
  world.registry.list([...listed].map((at) => named(agents[at] as ModelAgent)))
}

const agentAt = fc.nat({ max: 3 })
const provided = fc.nat({ max: MOST_PROVIDED - 1 })
const whom = fc.constantFrom<Whom>('everybody', 'gold')

const FILES = ['serves', 'serves', 'hangs', 'drops', 'fails', 'forbids', 'page', 'moves', 'gone'] as const

const changes: fc.Arbitrary<Command>[] = [
  fc
    .tuple(agentAt, fc.nat({ max: 9 }), provided)
    .map(([at, count, more]) => offer(at, count, more, 'everybody')),
  fc
    .tuple(agentAt, fc.integer({ min: 1, max: 9 }), provided)
    .map(([at, count, more]) => offer(at, count, more, 'gold')),
  fc
    .tuple(agentAt, whom, fc.constantFrom<Scope['behaviour']>('answers', 'answers', 'fails', 'hangs'))
    .map(([at, who, how]) => behave(at, who, how)),
  fc.constantFrom(...FILES).map((mode) =>
    command(`the provider: ${mode}`, (model, { world }) => {
      model.file = mode
      if (mode === 'gone') model.mayBeGone = true
      world.providers.behave(PROVIDER, mode)
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
      model.answersBefore = world.registry.answers()
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

const hours: fc.Arbitrary<Command> = fc.constant(
  command('more than an hour passes at once', (model, { shift }) => {
    outlive(model)
    shift(DROP_MS + 1)
  }),
)

/** So many changes of one world, in any order; a restart costs as much as ten of the others. */
export const changesOfOneWorld = (count: number) =>
  fc.array(
    fc.oneof(
      { weight: 25, arbitrary: fc.oneof(...changes) },
      { weight: 1, arbitrary: restart },
      { weight: 1, arbitrary: hours },
    ),
    { minLength: count, maxLength: count },
  )

/** Starts, moving time on so that nobody waits for who fails. */
async function start(model: Model, { world, shift }: Real): Promise<void> {
  model.sweepDue = true
  model.answersBefore = world.registry.answers()
  await startPassing(world, settingsOf(model, world), shift)
}

/** Runs changes over a world of their own; `steps` counts them. */
export async function runChanges(sequence: Iterable<Command>, steps: { count: number }): Promise<void> {
  const { clock, shift } = shiftableClock()
  const teardowns: (() => unknown)[] = []
  const world = await startScripted({ teardown: (task) => teardowns.push(task) }, { agents: 4, clock })
  const real: Real = { world, shift, steps }
  try {
    await fc.asyncModelRun(async () => {
      const model = createModel(world.agents)
      listIn(model, real)
      await start(model, real)
      await settle(model, real)
      return { model, real }
    }, sequence)
  } finally {
    for (const teardown of teardowns) await teardown()
  }
}
