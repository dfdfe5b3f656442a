import { test } from 'tap'
import { row } from '../support/upstream-world.js'
import { type Hostile, OTHER, type Seen, type Told } from './support/corpus.js'
import type { Stop } from './support/loop-watch.js'
import { type Among, startAmong } from './support/process.js'
import { startStrangers } from './support/stranger.js'

const INVENTED = 20_000
const PAGE_ROWS = 2_000
const LOOKED = 10_000 // signals that the whole feed has, for callers who look through it

const answer = ({ id }: Seen, payload: object): Told => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ jsonrpc: '2.0', id, result: { structuredContent: payload } }),
})

const of = (domain: string, at: number, more: object = {}) =>
  row(at, {
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id: `s${at}` },
    ...more,
  })

const from = (count: number, make: (at: number) => object) =>
  Array.from({ length: count }, (_, at) => make(at))

/** A row of an agent's own, whose words are looked through by whoever asks for one of them. */
const own = (at: number) =>
  row(at, { signal_ref: undefined, signal_type: 'owned', description: `USD of people ${at} and cars` })

const CROWD: readonly Hostile[] = [
  {
    name: 'a-provider-for-every-row',
    transport: 'mcp',
    answer: (seen) => answer(seen, { signals: from(INVENTED, (at) => of(`invented${at}.example`, at)) }),
  },
  {
    name: 'more-than-the-memory',
    transport: 'mcp',
    answer: (seen) => {
      const page = Number(seen.cursor ?? 0)
      const text = 'x'.repeat(4_000)
      const signals = from(PAGE_ROWS, (at) =>
        of('nobody.example', page * PAGE_ROWS + at, { description: text }),
      )
      return answer(seen, { signals, pagination: { has_more: true, cursor: String(page + 1) } })
    },
  },
  { name: 'a-huge-provider', transport: 'mcp', answer: (seen) => answer(seen, { signals: [of(OTHER, 1)] }) },
  {
    name: 'zz-much-to-look-through',
    transport: 'mcp',
    answer: (seen) => answer(seen, { signals: from(LOOKED, own), wholesale_feed_version: 'v1' }),
  },
]

/** A legal file of just under 20 MB: 100,000 signals, of which 500 agents may sell some. */
function hugeFile(): Told {
  const signals = from(100_000, (at) => ({
    ...{ id: `signal_${at}`, name: `Published signal number ${at}`, value_type: 'binary' },
    tags: ['one', 'two', `tag_${at % 100}`],
    description: 'People who were seen where they were seen, and of whom more is not told',
  }))
  const authorized_agents = from(500, (at) => ({
    url: `https://agent${at}.example/mcp`,
    ...{ authorized_for: 'signals', authorization_type: 'signal_tags', signal_tags: [`tag_${at % 100}`] },
  }))
  return {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ signals, authorized_agents }),
  }
}

const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2025-06-18',
}

function asking(among: Among) {
  const mcp = (args: object, headers: Record<string, string> = {}) =>
    among.ask('/mcp', {
      method: 'POST',
      headers: { ...JSON_HEADERS, ...headers },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name: 'get_signals', arguments: args },
      }),
    })
  const a2a = (args: object) =>
    among.ask('/a2a', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
        params: {
          message: {
            ...{ messageId: 'm', role: 'ROLE_USER' },
            parts: [{ data: { skill: 'get_signals', input: args } }],
          },
        },
      }),
    })
  const wholesale = { discovery_mode: 'wholesale' }
  return [
    () => among.ask('/explain?ref=USD'),
    ...from(60, (at) => () => mcp({ ...wholesale, filters: { max_cpm: at + 0.5 } }, { anybody: 'yes' })),
    ...from(20, (at) => () => mcp({ ...wholesale, filters: { data_providers: [`nobody ${at}`] } })),
    () => mcp({ signal_spec: `cars ${'and not x, '.repeat(60_000)}` }),
    () => mcp({ signal_spec: `cars ${'and not x, '.repeat(900)}` }),
    ...from(60, () => () => a2a({ ...wholesale, pagination: { max_results: 100 } })),
  ] as readonly (() => Promise<{ status: number }>)[]
}

test('a crowd of greedy strangers and callers takes nothing from anybody, in a heap of 1 GB', {
  timeout: 300_000,
}, async (t) => {
  const strangers = await startStrangers(CROWD, (told, name) => (name === 'provider' ? hugeFile() : told))
  t.teardown(strangers.close)
  let longestOwnMs = 0
  const onStop = ({ ownMs }: Stop) => {
    longestOwnMs = Math.max(longestOwnMs, ownMs)
  }
  const among = await startAmong(strangers.origin, CROWD, onStop, {
    limits: { memory: '96MiB', provider_domains_per_upstream: 1_000 },
    defaults: { refresh: '5s', timeout: '20s' },
  })
  t.teardown(among.close)
  const published = async () => (await among.lies().catch(() => ['no answer'])).length === 0
  const end = Date.now() + 240_000
  let isPublished = await published()
  while (!isPublished && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    isPublished = await published()
  }
  t.ok(isPublished, 'the good provider is there')

  let looks = 0
  const unwell: string[] = []
  const misses: string[] = []
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      looks += 1
      if (!(await among.healthy().catch(() => false))) unwell.push(`look ${looks}`)
      misses.push(...(await among.lies().catch((error: Error) => [error.message])))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  t.teardown(() => {
    isOver = true
  })
  const asked = await Promise.all(asking(among).map((ask) => ask().then(({ status }) => status)))
  t.notOk(
    asked.some((status) => status >= 500 && status !== 503),
    `${new Set(asked).size} kinds of answers`,
  )
  const settled = async () => {
    const { text } = await among.ask('/explain?ref=more-than-the-memory')
    return (await among.starting()).length === 0 && text.includes('over_memory')
  }
  // Seen once: on a busy machine a later look may be refused, for want of time.
  let isSettled = await settled()
  while (!isSettled && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 200))
    isSettled = await settled()
  }
  isOver = true
  await watching
  t.ok(isSettled, 'all were read, and the greediest gave way')
  t.ok(among.alive())
  t.same(unwell, [], `/healthz answered ${looks} times`)
  t.same([...new Set(misses)], [], 'and the good provider stayed')
  t.same(await among.leaks(), [])
  t.comment(`longest stop of its own since the start: ${Math.round(longestOwnMs)} ms`)
})
