/** What may happen to agents, providers, the policy and the accounts of callers, each as a step of the model. */
import fc from 'fast-check'
import {
  type Buyer,
  DAY,
  DOMAINS,
  type Model,
  outlive,
  ownerOf,
  type Policy,
  type Reference,
  redefine,
} from './accounts-model.js'
import {
  EVERYBODY,
  type Offer,
  type ProviderFile,
  SIGNAL_IDS,
  type Spoken,
  type Whose,
} from './spoken-agents.js'

/** What a step needs of the real thing. */
type Real = { reload(): void; pass(ms: number): Promise<void> }

export type Step = { name: string; run(model: Model, real: Real): void | Promise<void> }

const AGENTS = ['north', 'south', 'quiet'] as const
const BUYERS = ['plain', 'ada', 'bob'] as const
const WHOSE = [EVERYBODY, EVERYBODY, 'gold', 'silver', 'token t1', 'token t2'] as const
const POLICIES = ['strict', 'lenient', 'observe'] as const satisfies readonly Policy[]

const agentName = fc.constantFrom(...AGENTS)
const whose = fc.constantFrom<Whose>(...WHOSE)
const policy = fc.constantFrom<Policy>(...POLICIES)

/** A signal of a provider, or of the agent itself; priced and keyed as the step comes. */
type Drawn = { domain: (typeof DOMAINS)[number] | undefined; at: number; isLive: boolean }
const drawn: fc.Arbitrary<Drawn> = fc.record({
  domain: fc.constantFrom(...DOMAINS, ...DOMAINS, undefined),
  ...{ at: fc.nat(SIGNAL_IDS.length - 1), isLive: fc.boolean() },
})
const drawnRows = fc.uniqueArray(drawn, { maxLength: 5, selector: ({ domain, at }) => `${domain} ${at}` })

const reference: fc.Arbitrary<Reference> = fc.record({
  account: fc.option(fc.constantFrom('gold', 'silver'), { nil: undefined, freq: 3 }),
  token: fc.option(fc.constantFrom('t1', 't2'), { nil: undefined, freq: 2 }),
})
const account = fc
  .record({ north: reference, south: reference, quiet: reference })
  .map((all) => new Map(Object.entries(all)))

const grants = fc.record(
  Object.fromEntries(AGENTS.map((name) => [name, fc.subarray([...SIGNAL_IDS])])) as Record<
    string,
    fc.Arbitrary<string[]>
  >,
)
const file: fc.Arbitrary<ProviderFile> = fc.oneof(
  {
    weight: 5,
    arbitrary: grants.map((all) => ({ kind: 'serves' as const, grants: new Map(Object.entries(all)) })),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'gone' as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'away' as const }) },
)

const agentOf = ({ agents }: Model, name: string) => agents.find((one) => one.name === name) as Spoken
const buyerOf = ({ buyers }: Model, id: string) => buyers.find((one) => one.id === id) as Buyer

function note(model: Model, agent: Spoken, of: Whose, { cpm, key }: Offer): void {
  for (const thing of [`cpm ${cpm}`, ...(key === undefined ? [] : [key])]) {
    model.owners.set(thing, (model.owners.get(thing) ?? new Set()).add(ownerOf(agent, of)))
  }
}

/** From now on an agent offers somebody this. Every price and every key is another than all before. */
function offers(model: Model, agent: Spoken, of: Whose, rows: readonly Drawn[]): void {
  const made = rows.map(({ domain, at, isLive }): Offer => {
    model.numbers += 1
    return { provider: domain, at, cpm: model.numbers, ...(isLive && { key: `live-${model.numbers}-` }) }
  })
  put(model, agent, of, made)
}

function put(model: Model, agent: Spoken, of: Whose, made: readonly Offer[]): void {
  for (const one of made) note(model, agent, of, one)
  if (of === EVERYBODY) agent.card = made
  else agent.deals.set(of, made)
  agent.version += 1
}

function reloaded(name: string, change: (model: Model) => void): Step {
  return {
    name: `reload: ${name}`,
    run(model, real) {
      change(model)
      real.reload()
    },
  }
}

const told = (value: unknown) =>
  JSON.stringify(value, (_, one) => (one instanceof Map ? Object.fromEntries(one) : one))

export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(agentName, whose, drawnRows).map(([name, of, rows]) => ({
      name: `${name} offers "${of}" ${told(rows)}`,
      run: (model: Model) => offers(model, agentOf(model, name), of, rows),
    })),
  },
  fc.tuple(agentName, fc.constantFrom<Whose>('gold', 'silver', 'token t1')).map(([name, of]) => ({
    name: `${name} offers "${of}" what everybody has`,
    run(model: Model) {
      const agent = agentOf(model, name)
      put(model, agent, of, agent.card)
    },
  })),
  fc.tuple(agentName, whose).map(([name, of]) => ({
    name: `${name} ends its deal with "${of}"`,
    run(model: Model) {
      const agent = agentOf(model, name)
      agent.deals.delete(of)
      agent.version += 1
    },
  })),
  {
    weight: 3,
    arbitrary: fc
      .tuple(agentName, fc.constantFrom<Whose>('*', ...WHOSE), fc.boolean())
      .map(([name, of, fails]) => ({
        name: `${name} ${fails ? 'fails' : 'answers'} "${of}"`,
        run(model: Model) {
          const agent = agentOf(model, name)
          if (fails) agent.fails.add(of)
          else if (of === '*') agent.fails.clear()
          else agent.fails.delete(of)
        },
      })),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(fc.constantFrom(...DOMAINS), file).map(([domain, next]) => ({
      name: `${domain} publishes ${told(next)}`,
      run: (model: Model) => void model.files.set(domain, next),
    })),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom('ada', 'bob'), account)
      .map(([id, next]) =>
        reloaded(`${id} has the account ${told(next)}`, (model) =>
          redefine(model, buyerOf(model, id), { account: next }),
        ),
      ),
  },
  fc
    .constantFrom('ada', 'bob')
    .map((id) =>
      reloaded(`${id} has no account`, (model) =>
        redefine(model, buyerOf(model, id), { account: undefined }),
      ),
    ),
  fc
    .tuple(fc.constantFrom(...BUYERS), fc.boolean())
    .map(([id, isThere]) =>
      reloaded(`${id} is ${isThere ? '' : 'not '}there`, (model) =>
        redefine(model, buyerOf(model, id), { isThere }),
      ),
    ),
  fc.tuple(fc.constantFrom(...BUYERS), fc.boolean()).map(([id, seesKeys]) =>
    reloaded(`${id} sees ${seesKeys ? 'its' : 'no'} keys`, (model) => {
      buyerOf(model, id).seesKeys = seesKeys
    }),
  ),
  {
    weight: 2,
    arbitrary: fc.tuple(policy, fc.option(policy, { nil: undefined })).map(([next, exception]) =>
      reloaded(`${next}, and ${exception ?? 'the same'} for ${DOMAINS[1]}`, (model) => {
        model.policy = next
        model.exceptions = new Map(exception ? [[DOMAINS[1], exception]] : [])
      }),
    ),
  },
  fc.constant({
    name: 'more than a day passes',
    async run(model: Model, real: Real) {
      const parts = 5
      for (let part = 0; part < parts; part += 1) await real.pass(DAY / (parts - 1)) // whoever answers is read in each
      outlive(model)
    },
  }),
)

export type Start = {
  offers: readonly { name: string; of: Whose; rows: readonly Drawn[] }[]
  files: readonly ProviderFile[]
}

/** Every agent has something for everybody, and most deals are there. */
export const start: fc.Arbitrary<Start> = fc.record({
  offers: fc
    .tuple(
      ...AGENTS.flatMap((name) =>
        ['', 'gold', 'token t1'].map((of) => drawnRows.map((rows) => ({ name, of, rows }))),
      ),
    )
    .map((all) => all.filter(({ of, rows }) => of === '' || rows.length > 1)),
  files: fc.tuple(file, file),
})

export function begin(model: Model, { offers: all, files }: Start): void {
  for (const { name, of, rows } of all) offers(model, agentOf(model, name), of, rows)
  DOMAINS.forEach((domain, at) => {
    model.files.set(domain, files[at] as ProviderFile)
  })
}
