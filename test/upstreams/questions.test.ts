import { type Test, test } from 'tap'
import type { AgentOutcome, Arguments } from '../../src/upstreams/agent/agent.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { createAsked, enumerate } from '../../src/upstreams/walk/enumerate.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

const REFRESH_MS = 60_000

/** An old agent, which knows no lookup: it finds a row by its number in the question. */
async function startFinder(t: Test) {
  const asked: string[] = []
  const agent = await startMcpAgent((task, { signal_spec: spec = '' }) => {
    if (task !== 'get_signals' || spec === '') return undefined
    asked.push(String(spec))
    return { signals: [...String(spec).matchAll(/\d+/g)].map(([number]) => row(Number(number))) }
  })
  t.teardown(agent.close)
  return { url: agent.url, asked }
}

async function world(t: Test, seedsFromBriefs: boolean, names: readonly string[] = []) {
  const agent = await startFinder(t)
  const time = createManualClock()
  const config = configOf([{ id: 'a', url: agent.url, seeds: ['seed 1'] }], {
    ...{ refreshMs: REFRESH_MS, seedsFromBriefs },
  })
  const { upstreams } = await openUpstreams(t, config, {
    clock: time.clock,
    random: () => 0.5,
    ...(names.length > 0 && { namesFor: () => names }),
  })
  const status = () => upstreams.statuses()[0]
  const isDone = () => (status()?.nextAttemptAt ?? 0) > time.clock.now()
  await upstreams.start()
  await until('the first refresh', isDone)
  return {
    upstreams,
    asked: agent.asked,
    rows: () => status()?.listings,
    async refreshed() {
      agent.asked.length = 0
      time.advance((status()?.nextAttemptAt ?? 0) - time.clock.now())
      await until('a refresh', isDone)
    },
    ask: (signal_spec: string, more: object = {}, auth?: { type: 'bearer'; token: string }) =>
      upstreams.call(
        urlOf(upstreams, 'a'),
        'get_signals',
        { signal_spec, deliver_to: { platforms: 'all' }, ...more },
        { deadline: time.clock.now() + 30_000, ...(auth && { auth }) },
      ),
  }
}

test('what buyers ask finds what no seed does, and is asked again as long as it does', async (t) => {
  const { ask, refreshed, asked, rows } = await world(t, true)
  t.equal(rows(), 1)
  await ask('buyers want 7 and 8')
  await ask('what the seed finds: 1')
  await ask('nothing here')
  await ask('for an account: 9', { account: { account_id: 'acc' } })
  await ask('with a credential: 10', {}, { type: 'bearer', token: 'of-the-caller' })
  await ask(`${'long '.repeat(200)} 11`)
  await refreshed()
  t.same([...new Set(asked)], ['seed 1', 'buyers want 7 and 8', 'what the seed finds: 1'])
  t.equal(rows(), 3)
  await refreshed()
  t.same([...new Set(asked)], ['seed 1', 'buyers want 7 and 8'], 'the barren one is forgotten')
  t.equal(rows(), 3, 'what was found stays')
})

test('however much buyers ask, twenty questions are kept', async (t) => {
  const { ask, refreshed, asked, rows } = await world(t, true)
  for (let at = 100; at < 140; at++) await ask(`number ${at}`)
  await refreshed()
  t.equal(new Set(asked.filter((text) => text.startsWith('number'))).size, 20)
  t.equal(rows(), 21)
})

test('an operator can turn it off', async (t) => {
  const { ask, refreshed, asked, rows } = await world(t, false)
  await ask('buyers want 7')
  await refreshed()
  t.notOk(asked.includes('buyers want 7'))
  t.equal(rows(), 1)
})

test('an agent that knows no lookup is asked by what providers call its signals', async (t) => {
  const { rows, asked } = await world(t, false, ['Drivers 3', 'Riders 4'])
  t.equal(rows(), 3)
  t.ok(asked.includes('Drivers 3') && asked.includes('Riders 4'))
})

/** Asks an old agent, whose only answers are these. */
function enumerated(
  questions: { seeds?: readonly string[]; asked?: readonly string[] },
  answer: (spec: string, size: number, cursor: string | undefined) => AgentOutcome,
  inputs: readonly string[] = ['signal_spec', 'pagination'],
  now = () => 0,
) {
  const input = { names: new Set(inputs), texts: new Set<string>(), isOpen: false }
  const tools = new Map([['get_signals', input]]) as never
  return enumerate({
    ...{ refs: [], names: [], seeds: [], asked: [], pageSize: 100 },
    ...questions,
    dialect: { release: 'older', declaresWholesale: false, tools },
    sleep: async () => {},
    ...{ walkMs: 60_000, now, gathers: () => true },
    ask: async (_task, { signal_spec: spec, pagination }: Arguments) => {
      const { max_results: size, cursor } = pagination as { max_results: number; cursor?: string }
      return answer(String(spec), size, cursor)
    },
  })
}

const found = (from: number, count: number, pagination: object = {}): AgentOutcome => ({
  ...{ kind: 'answer', payload: { signals: [], pagination } },
  rows: readRows(Array.from({ length: count }, (_, at) => Buffer.from(JSON.stringify(row(from + at))))),
})
const broken: AgentOutcome = { kind: 'error', error: { code: 'INTERNAL_ERROR', message: 'boom' } }

test('a question of a buyer that fails costs the others nothing', async (t) => {
  const questions = { seeds: ['seed'], asked: ['breaks', 'finds'] }
  const answer = (spec: string) => (spec === 'breaks' ? broken : found(spec === 'seed' ? 1 : 5, 3))
  const outcome = await enumerated(questions, answer)
  t.match(outcome, { kind: 'complete', rows: { count: 6 }, barren: new Set(['breaks']) })
  t.match(await enumerated({ seeds: ['breaks'], asked: ['finds'] }, answer), { kind: 'failed' })
  t.match(await enumerated({ asked: ['breaks'] }, answer), { kind: 'failed' }, 'none was answered')
})

test('an answer is read to its last page, also of an agent that gives a cursor and no has_more', async (t) => {
  for (const more of [{ has_more: true }, {}]) {
    const outcome = await enumerated({ seeds: ['seed'] }, (_, size, cursor) => {
      const at = Number(cursor ?? 0)
      return found(at * size, size, at < 2 ? { ...more, cursor: `${at + 1}` } : { has_more: false })
    })
    t.match(outcome, { kind: 'complete', rows: { count: 300 } }, JSON.stringify(more))
  }
  const round = await enumerated({ seeds: ['seed'] }, () => found(1, 5, { cursor: 'always the same' }))
  t.match(round, { kind: 'complete', rows: { count: 5 } })
})

test('only questions that were asked count as useful', (t) => {
  const asked = createAsked()
  asked.note('early')
  const reading = asked.questions()
  asked.note('late')
  asked.learn(reading, new Set())
  for (let at = 0; at < 25; at++) asked.note(`more ${at}`)
  t.ok(asked.questions().includes('early'))
  t.notOk(asked.questions().includes('late'))
  t.end()
})

test('an agent that cannot give more rows in time has a limit, and one that refuses us has none', async (t) => {
  const inputs = ['signal_spec', 'max_results']
  const asking = (more: AgentOutcome) =>
    enumerated({ seeds: ['seed'] }, (_, size) => (size > 100 ? more : found(1, 100)), inputs)
  const slow = await asking({ kind: 'failed', reason: 'timeout', message: 'slow' })
  t.match(slow, { kind: 'complete', rows: { count: 100 }, limitedAt: 100 })
  const refused = await asking({ kind: 'failed', reason: 'unauthorized', message: 'who are you' })
  t.match(refused, { kind: 'failed', reason: 'unauthorized' })
})

test('a reading ends at its bound in time, whoever published how many questions for it', async (t) => {
  let time = 0
  const spent = (asked: string) => {
    time += 25_000
    return found(asked.length, 3)
  }
  const ask = (questions: { seeds?: readonly string[]; asked?: readonly string[] }) => {
    time = 0
    return enumerated(questions, spent, undefined, () => time)
  }
  t.match(await ask({ seeds: ['1', '12', '123', '1234'] }), { kind: 'failed', reason: 'timeout' })
  const buyers = await ask({ seeds: ['1', '12'], asked: ['123', '1234'] })
  t.match(buyers, { kind: 'complete' }, 'what buyers asked is left out instead')
})
