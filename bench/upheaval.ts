/**
 * Reloads, registry changes and upstream restarts at random moments, while walkers copy the feed and account readers read
 * theirs. Ends with what has to hold: no answer with fewer rows that names nobody, no version that moved without content,
 * no account told `public` while its prices differ, no walk that had to begin again. `node dist/bench/upheaval.js [events]`.
 */
import { hash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { DEAL, lacks, type Settings, startScripted } from '../test/composition/support/scripted.js'
import { type Agent, ownRow } from '../test/composition/support/scripted-agents.js'
import type { Answer } from '../test/support/federation.js'
import { givenNumber } from '../test/support/given.js'

const EVENTS = givenNumber(0, 200)
const WALKERS = 8
const READERS = 4
const STEADY = 4 // agents that are there all the time
const ROWS = 250

const counts = { walks: 0, pages: 0, reads: 0, thin: 0, begunAgain: 0, movedWithoutContent: 0, toldPublic: 0 }
const teardowns: (() => unknown)[] = []
const world = await startScripted({ teardown: (task) => teardowns.push(task) }, { agents: 7 })
const { agents, registry } = world
const steady = agents.slice(0, STEADY)
const passing = agents.slice(STEADY)
const [dealer] = steady as [Agent]
const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T
let cpm = 1

function reprice(agent: Agent): void {
  cpm += 1
  agent.offer(Array.from({ length: ROWS }, (_, at) => ownRow(agent.url, at, cpm)))
}

let settings: Settings = {
  statics: steady.map((agent) => ({ id: agent.name, agent })),
  registries: [registry.url],
  deals: [dealer],
  pace: { refreshMs: 200 },
}
for (const agent of agents) reprice(agent)
dealer.offerGold(Array.from({ length: ROWS }, (_, at) => ownRow(dealer.url, at, 0.5)))
registry.list(passing)
await world.start(settings)

const EVENT: readonly (() => void | Promise<void>)[] = [
  () => {
    settings = { ...settings, pace: { refreshMs: 150 + Math.floor(Math.random() * 100) } }
    world.apply(settings)
  },
  () => {
    const named = passing.filter(() => Math.random() < 0.5)
    const statics = [...steady, ...named].map((agent) => ({ id: agent.name, agent }))
    settings = { ...settings, statics }
    world.apply(settings)
  },
  () => registry.list(passing.filter(() => Math.random() < 0.7)),
  () => registry.behave(pick(['lists', 'lists', 'empty', 'error', 'garbage'])),
  async () => {
    const agent = pick(agents)
    agent.behave(pick(['fails', 'hangs']))
    await pause(50)
    agent.behave('answers')
  },
  () => reprice(pick(agents)),
]

let isOver = false
const contentOf = new Map<string, string>()
const versionOf = new Map<string, string>()

/** Rows of who was there all the time are all there, or who lacks some is named. */
function isThin(pages: readonly Answer[]): boolean {
  const rows = new Map<string, number>()
  for (const { ext } of pages.flatMap(({ signals = [] }) => signals)) {
    const url = ext.tributary.offers[0]?.agent_url ?? ''
    rows.set(url, (rows.get(url) ?? 0) + 1)
  }
  return steady.some(
    (agent) => rows.get(agent.url) !== ROWS && !pages.every((page) => lacks(page).includes(agent.name)),
  )
}

function compareVersion(pages: readonly Answer[]): void {
  const [first] = pages
  const version = `${first?.wholesale_feed_version} ${first?.pricing_version}`
  const content = hash('sha256', JSON.stringify(pages.map(({ signals }) => signals)))
  const isMoved =
    (versionOf.get(content) ?? version) !== version || (contentOf.get(version) ?? content) !== content
  if (isMoved) counts.movedWithoutContent += 1
  versionOf.set(content, version)
  contentOf.set(version, content)
}

async function walker(): Promise<void> {
  while (!isOver) {
    const pages: Answer[] = []
    let cursor: string | undefined
    do {
      const page = await world.page({ pagination: { max_results: 100, ...(cursor && { cursor }) } })
      pages.push(page)
      cursor = page.pagination?.cursor
      await pause(Math.random() * 20)
    } while (cursor && !isOver)
    if (isOver) return
    counts.walks += 1
    counts.pages += pages.length
    if (new Set(pages.map((page) => page.wholesale_feed_version)).size > 1) counts.begunAgain += 1
    else {
      compareVersion(pages)
      if (isThin(pages)) counts.thin += 1
    }
  }
}

async function accountReader(): Promise<void> {
  while (!isOver) {
    const { cache_scope: scope } = await world.page({ ...DEAL, pagination: { max_results: 100 } })
    counts.reads += 1
    if (scope === 'public') counts.toldPublic += 1
    await pause(Math.random() * 20)
  }
}

const reading = [
  ...Array.from({ length: WALKERS }, walker),
  ...Array.from({ length: READERS }, accountReader),
]
for (let event = 0; event < EVENTS; event += 1) {
  await pick(EVENT)()
  await pause(Math.random() * 150)
}
isOver = true
await Promise.all(reading)
for (const teardown of teardowns) await teardown()
console.log(
  `${EVENTS} events: ${Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')}`,
)
const { thin, begunAgain, movedWithoutContent, toldPublic } = counts
process.exitCode = thin + begunAgain + movedWithoutContent + toldPublic === 0 ? 0 : 1
