/**
 * Callers of all kinds, none of whom knows that there are several replicas: they walk the feed, as themselves and for an
 * account, ask briefs with a second page, activate, and are told when a task has ended. What they met that must not be is kept.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { until } from '../../support/until.js'
import { readJson, startHttp } from '../../support/upstream-agent.js'
import { type Agent, LATE, OWN_CPM } from './agents.js'
import { type Caller, createCaller, type Said } from './asking.js'

export const TOKENS = {
  walker: 'a-walker-key',
  reader: 'an-account-reader-key',
  briefer: 'a-briefer-key',
  buyer: 'a-buyer-key',
  /** Nobody's of the crowd. */
  counted: 'a-key-whose-requests-are-counted',
} as const
export const ACCOUNT = 'acc_own'

const PAGE = 100
const DESK = { type: 'platform', platform: 'the-trade-desk' }
const CREDENTIALS = 'a-shared-secret-of-thirty-two-characters'

/** Takes notices, some only at the second time, and remembers under which keys each task's came. */
async function startReceiver() {
  const keys = new Map<string, Set<string>>()
  const told = new Set<string>()
  let turn = 0
  const running = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as Record<string, string>
    const { operation_id: operation = '', task_id: task = '', idempotency_key: key = '' } = body
    told.add(operation)
    keys.set(task, (keys.get(task) ?? new Set()).add(key))
    turn += 1
    response.writeHead(turn % 3 === 0 ? 503 : 200).end()
  }, '/notices')
  return { ...running, keys, told }
}

const isRefusal = (said: Said) => said.adcp_error !== undefined

/** What is wrong with a walk; undefined when nothing is. */
function faultOf(pages: readonly Said[], agents: readonly Agent[], isAccount: boolean): string | undefined {
  const versions = new Set(pages.map(({ wholesale_feed_version: version }) => version))
  if (versions.size > 1) return `it went on in another version after ${pages.length} pages`
  const rows = pages.flatMap(({ signals }) => signals as Said[])
  if (new Set(rows.map((row) => row.signal_agent_segment_id)).size !== rows.length)
    return 'a signal came twice'
  const { total_count: total } = pages[0]?.pagination ?? {}
  if (rows.length !== total) return `${rows.length} signals of ${total}`
  for (const { name } of agents) {
    const its = rows.filter((row) => row.name.includes(` of ${name} `))
    const feeds = new Set(its.map((row) => row.name.split(' ').at(-1)))
    if (feeds.size > 1) return `rows of ${[...feeds].join(' and ')} of ${name}`
  }
  const isTold = pages.some(({ incomplete }) => incomplete !== undefined)
  const own = rows.filter((row) => row.name.includes(' of a ') && row.pricing_options)
  const isPublic = own.some((row) => row.pricing_options.some((option: Said) => option.cpm < OWN_CPM))
  if (isAccount && isPublic && !isTold) return 'the rate card, for an account with its own prices'
  if (!isAccount && own.some((row) => row.pricing_options.some((option: Said) => option.cpm >= OWN_CPM))) {
    return 'the prices of an account, for everybody'
  }
  return undefined
}

type CrowdOptions = {
  url: string
  agents: readonly Agent[]
  /** Whether a replica may be away from the database now: what it keeps then, the others cannot find. */
  isKeptAlone(): boolean
}

export async function startCrowd({ url, agents, isKeptAlone }: CrowdOptions) {
  const receiver = await startReceiver()
  const faults: string[] = []
  const answers = new Map<string, number>()
  const wanted: { segment: string; handle: string; isDone: boolean }[] = []
  const operations = new Set<string>()
  let isEnding = false
  let isOver = false
  let walks = 0
  let seconds = 0 // second pages of briefs

  const caller = (token: string): Caller =>
    createCaller({
      ...{ url, token, isOver: () => isOver },
      onAnswer: (task) => answers.set(task, (answers.get(task) ?? 0) + 1),
    })
  const { walker, reader, briefer, buyer } = {
    walker: caller(TOKENS.walker),
    reader: caller(TOKENS.reader),
    briefer: caller(TOKENS.briefer),
    buyer: caller(TOKENS.buyer),
  }

  async function walk(by: Caller, isAccount: boolean): Promise<readonly Said[] | undefined> {
    const pages: Said[] = []
    for (let cursor: string | undefined; ; cursor = pages.at(-1)?.pagination.cursor) {
      const said = await by('get_signals', {
        discovery_mode: 'wholesale',
        pagination: { max_results: PAGE, ...(cursor && { cursor }) },
        ...(isAccount && { account: { account_id: ACCOUNT } }),
      })
      if (!said) return undefined
      if (isRefusal(said)) {
        faults.push(`a page was refused: ${JSON.stringify(said.adcp_error)}`)
        return undefined
      }
      pages.push(said)
      if (!said.pagination.has_more) break
    }
    walks += 1
    const fault = faultOf(pages, agents, isAccount)
    if (fault) faults.push(`${isAccount ? 'of an account' : 'of everybody'}, a torn walk: ${fault}`)
    return pages
  }

  async function brief(): Promise<void> {
    const question = { signal_spec: `people who drink coffee, ${randomUUID().slice(0, 4)}` }
    const first = await briefer('get_signals', { ...question, pagination: { max_results: 3 } })
    const cursor = first?.pagination?.cursor
    if (!cursor) return
    const isAlone = isKeptAlone()
    const second = await briefer('get_signals', { ...question, pagination: { max_results: 3, cursor } })
    if (!second) return
    seconds += 1
    if (isAlone && second.adcp_error?.code === 'INVALID_REQUEST') return // it is told to begin again
    if (isRefusal(second))
      faults.push(`page two of a brief was refused: ${JSON.stringify(second.adcp_error)}`)
    const ids = [first, second].flatMap(({ signals = [] }) =>
      signals.map((row: Said) => row.signal_agent_segment_id),
    )
    if (new Set(ids).size !== ids.length) faults.push('a signal came on both pages of a brief')
  }

  async function askForNotice(): Promise<void> {
    const operation_id = randomUUID()
    const authentication = { schemes: ['Bearer'], credentials: CREDENTIALS }
    const said = await briefer('get_signals', {
      signal_spec: `${LATE} ${operation_id}`,
      push_notification_config: { url: receiver.url, operation_id, authentication },
    })
    if (said?.status === 'submitted') operations.add(operation_id)
  }

  /** One that nobody has activated before, so that the agent's books tell how often it was done. */
  async function activate(choice: Said): Promise<void> {
    const { signal_agent_segment_id: handle, pricing_options: [option] = [] } = choice
    const [, at, name] = /^Signal (\d+) of (\w+) /.exec(choice.name) ?? []
    const wish = { segment: `${name}_${at}`, handle, isDone: false }
    wanted.push(wish)
    const key = randomUUID()
    let said = await buyer('activate_signal', {
      signal_agent_segment_id: handle,
      pricing_option_id: option?.pricing_option_id,
      destinations: [DESK],
      idempotency_key: key,
    })
    const task_id = said?.task_id
    while (said && ['submitted', 'working'].includes(said.status) && !isOver) {
      await wait(100)
      said = await buyer('get_task_status', { task_id })
    }
    if (!said) return
    wish.isDone = said.status === 'completed'
    if (!wish.isDone) faults.push(`an activation ended so: ${JSON.stringify(said)}`)
  }

  /** Does it over and over, with a pause, until it is told to end. */
  async function keep(work: () => Promise<unknown>, pauseMs: number): Promise<void> {
    while (!isEnding) {
      await work()
      await wait(pauseMs)
    }
  }

  let running: Promise<unknown> = Promise.resolve()
  return {
    faults,
    answers,
    tally: () => ({ walks, seconds, notices: operations.size, activations: wanted.length }),
    /** From now on; `pauseMs`: between two requests of one caller. */
    async start(pauseMs: number): Promise<void> {
      const all = agents.reduce((sum, { count }) => sum + count, 0)
      const choices = await until(
        async () => (await walk(buyer, false))?.flatMap(({ signals }) => signals as Said[]) ?? [],
        (found) => found.length === all,
      )
      running = Promise.all([
        keep(() => walk(walker, false), pauseMs),
        keep(() => walk(walker, false), pauseMs),
        keep(() => walk(reader, true), pauseMs),
        keep(brief, 4 * pauseMs),
        keep(askForNotice, 4 * pauseMs),
        keep(async () => {
          const choice = choices.pop()
          if (choice) await activate(choice)
        }, pauseMs),
      ])
    },
    /** Everybody finishes what they began; resolves when they have. */
    async end(): Promise<void> {
      isEnding = true
      await running
    },
    /** Operations whose notice is missing. */
    untold: () => [...operations].filter((operation) => !receiver.told.has(operation)),
    /** What the books of agents and receiver say that should not be. */
    audit(): string[] {
      const acts = new Map(agents.flatMap((agent) => [...agent.acts()]))
      const lost = wanted.filter(({ segment, isDone }) => isDone && !acts.has(segment))
      const undone = wanted.filter(({ isDone }) => !isDone)
      const doubled = [...acts].filter(([, times]) => times > 1)
      const twice = [...receiver.keys].filter(([, keys]) => keys.size > 1)
      return [
        ...lost.map(({ segment }) => `${segment} was said to be activated, and is not`),
        ...undone.map(({ segment }) => `nobody knows whether ${segment} is activated`),
        ...doubled.map(([segment, times]) => `${segment} was activated ${times} times`),
        ...twice.map(([operation, keys]) => `${operation} was told under ${keys.size} keys`),
      ]
    },
    async close(): Promise<void> {
      isOver = isEnding = true
      await running
      await receiver.close()
    },
  }
}

export type Crowd = Awaited<ReturnType<typeof startCrowd>>
