/**
 * A world of more rows than one builder is given for a first feed: some that agents sell alone, some that all of them sell, with
 * definitions, and some that a provider does not authorize. What a reader sees of it, to be compared.
 */
import { hash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import type { Answer } from '../../support/federation.js'
import { type Scripted, type Settings, startScripted } from './scripted.js'
import { type Agent, ownRow, providerRow, type Row } from './scripted-agents.js'
import { PROVIDERS } from './scripted-strangers.js'

type Test = { teardown(task: () => unknown): void }

export const AGENTS = 3
export const OWN = 7_500 // rows of each agent that it sells alone, three kilobytes each
export const PROVIDED = 250 // of each provider at each agent; two hundred are authorized
const AUTHORIZED = 200
export const SIGNALS = AGENTS * OWN + PROVIDERS.length * AUTHORIZED

const WORDS = ['sailing', 'mortgages', 'gardening', 'telescopes', 'cheese', 'running', 'violins', 'tyres']
const description = (agent: number, at: number) =>
  `Somebody who asked about ${WORDS[at % 8]} and ${WORDS[(at >> 3) % 8]}, ${agent} ${at}. ${'Often. '.repeat(360 + (at % 11))}`

function rowsOf(agent: Agent, number: number): Row[] {
  const own = Array.from({ length: OWN }, (_, at) => ({
    ...ownRow(agent.url, at, 1 + ((at * 7 + number) % 90) / 10),
    ...(at % 5 === 0 && { countries: [at % 10 === 0 ? 'DE' : 'FR'] }),
    description: description(number, at),
  }))
  const provided = PROVIDERS.flatMap((provider) =>
    Array.from({ length: PROVIDED }, (_, at) => providerRow(provider, at, 1 + ((at + number) % 30) / 10)),
  )
  return [...own, ...provided]
}

export const WHOLESALE = { discovery_mode: 'wholesale' }
const QUESTIONS: readonly object[] = [
  WHOLESALE,
  { ...WHOLESALE, filters: { max_cpm: 1.5 } },
  { ...WHOLESALE, countries: ['FR'], pagination: { max_results: 100 } },
  { ...WHOLESALE, filters: { catalog_types: ['marketplace'] }, pagination: { max_results: 100 } },
  { ...WHOLESALE, destinations: [{ type: 'platform', platform: 'the-trade-desk' }], fields: ['name'] },
  ...['s0', 's77', 's199', 's200'].map((signal_id) => ({
    signal_refs: [{ scope: 'data_provider', data_provider_domain: PROVIDERS[1], signal_id }],
  })),
]

/** Of an answer, what the same feed says wherever and whenever it is served. */
function lasting({ signals, pagination, incomplete, ...rest }: Answer) {
  const { wholesale_feed_version, pricing_version, cache_scope } = rest as Record<string, unknown>
  return {
    wholesale_feed_version,
    pricing_version,
    cache_scope,
    incomplete,
    signals,
    count: pagination?.total_count,
  }
}

export type Ask = (input: object) => Promise<Answer>

export async function seen(ask: Ask): Promise<string[]> {
  const answers: string[] = []
  for (const question of QUESTIONS) answers.push(JSON.stringify(lasting(await ask(question))))
  return answers
}

/** Every row in the order of the walk. */
export async function walked(ask: Ask): Promise<string> {
  const rows: string[] = []
  let cursor: string | undefined
  do {
    const answer = await ask({ ...WHOLESALE, pagination: { max_results: 100, ...(cursor && { cursor }) } })
    for (const signal of answer.signals ?? []) rows.push(JSON.stringify(signal))
    cursor = answer.pagination?.cursor
  } while (cursor)
  return `${rows.length} ${hash('sha256', rows.join('\n'))}`
}

type Stage = {
  world: Scripted
  ask: Ask
  settings: Settings
  offer(own: number): void
  fresh(): Promise<void>
}

export async function startLarge(t: Test): Promise<Stage> {
  const world = await startScripted(t, { agents: AGENTS })
  const rows = world.agents.map(rowsOf)
  const settings: Settings = {
    statics: world.agents.map((agent, at) => ({ id: `a${at}`, agent })),
    pace: { refreshMs: 500, concurrency: 8 },
  }
  return {
    world,
    ask: (input) => world.call('get_signals', input),
    settings,
    /** So many of the rows that each agent sells alone, and all that others sell as well. */
    offer: (own) =>
      world.agents.forEach((agent, at) => {
        agent.offer((rows[at] as Row[]).slice(OWN - own))
      }),
    async fresh() {
      await world.stop()
      await rm(world.folder, { recursive: true, force: true })
    },
  }
}
