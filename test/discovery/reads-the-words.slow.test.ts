import tap, { test } from 'tap'
import type { BriefsOptions } from '../../src/briefs/briefs.js'
import { readAnswer, startWorld } from './support/world.js'

const SIGNALS = 2_400
/** Rates of currencies, for the test that has some. */
let rates: ReturnType<BriefsOptions['rates']>
const { ask } = await startWorld(tap, SIGNALS, { rates: () => rates })
const time_budget = { interval: 60, unit: 'seconds' } as const // however busy the machine

type Told = {
  upstreams: object[]
  read_as?: object
  relevance?: { signal_agent_segment_id: string; fit?: number; has: string[]; lacks: string[] }[]
}

async function asked(question: object) {
  const answer = readAnswer(await ask({ time_budget, ...question }))
  const { tributary } = answer.ext as unknown as { tributary: Told }
  return { ...answer, ...tributary, cursor: answer.pagination?.cursor }
}

test('signals of the country that is asked for stand first, however the question says it', async (t) => {
  for (const signal_spec of ['EV intenders in Germany', 'EV intenders Germany', 'EV intenders Deutschland']) {
    const { signals, message, read_as } = await asked({ signal_spec })
    const places = signals.map(({ name }) => (name as string).includes('Germany'))
    t.ok(places.slice(0, 2).every(Boolean), `${signal_spec}: ${signals[0]?.name}, ${signals[1]?.name}`)
    t.match(signals[0]?.name, /^Electric Vehicle In-Market Intenders/)
    t.match(read_as, { countries: ['DE'] }, signal_spec)
    t.match(message, 'Read as: countries DE.')
  }
})

test('the message says that these come first only where they do', async (t) => {
  for (const [signal_spec, place] of [
    ['mortgage seekers in Poland', 'Poland'],
    ['B2B software buyers in Germany', 'Germany'],
    ['EV intenders in Australia', 'Australia'],
    ['golf fans in Brazil', 'Brazil'],
  ] as const) {
    const {
      signals: [first],
      message,
    } = await asked({ signal_spec })
    const isThere = first?.name.includes(place)
    t.match(message, isThere ? 'These come first' : 'No signal that is about this has all of it', signal_spec)
  }
})

test('each signal says what of the question it has, and the first page has none that shares nothing with it', async (t) => {
  for (const signal_spec of [
    'people who use wellness apps',
    'mortgage seekers in Poland',
    'IT decision makers for cybersecurity',
    'fans of golf, last month',
  ]) {
    const { signals, relevance = [], cursor } = await asked({ signal_spec })
    t.ok(signals.length > 0)
    t.same(
      relevance.map(({ signal_agent_segment_id }) => signal_agent_segment_id),
      signals.map(({ signal_agent_segment_id }) => signal_agent_segment_id),
    )
    for (const { has, fit } of relevance) {
      t.ok(has.length > 0, signal_spec)
      t.ok(fit !== undefined && fit > 0 && fit <= 1)
    }
    t.notOk(signals.some(({ name }) => (name as string).startsWith('Service Due Soon')))
    if (cursor === undefined) continue
    const next = await asked({ signal_spec, pagination: { cursor } })
    t.equal(next.relevance?.length, next.signals.length, 'further pages tell it as well')
  }
})

test('a price and a platform in the words are told, and what fulfils them stands first', async (t) => {
  const signal_spec = 'cybersecurity on DV360, CPM under 3 USD'
  const { signals, read_as, message } = await asked({ signal_spec })
  t.match(read_as, { platforms: ['dv360'], max_cpm: { amount: 3, currency: 'USD' } })
  t.match(message, 'Read as: destinations dv360; CPM up to 3 USD.')
  const isThere = ({ deployments }: Record<string, unknown>) =>
    JSON.stringify(deployments).includes('"dv360"')
  const plain = await asked({ signal_spec: 'cybersecurity' })
  t.ok(signals.slice(0, 5).filter(isThere).length > plain.signals.slice(0, 5).filter(isThere).length)
})

test('prices are compared with those in their own currency only', async (t) => {
  for (const [words, currency, most] of [
    ['CPM under 2 USD', 'USD', 2],
    ['max 400 yen CPM', 'JPY', 400],
  ] as const) {
    const { signals } = await asked({ signal_spec: `coffee, ${words}`, pagination: { max_results: 100 } })
    const isDear = signals.map(({ pricing_options: options = [] }) => {
      const cpms = options.filter(({ model, currency: own }) => model === 'cpm' && own === currency)
      return cpms.length > 0 && cpms.every(({ cpm = 0 }) => cpm > most)
    })
    const first = isDear.indexOf(true)
    t.ok(first > 0, `${words}: something is too dear, and does not stand first`)
    t.ok(isDear.slice(first).every(Boolean), `${words}: what is not compared stands before`)
  }
})

test('with a table of rates, prices in other currencies count for what they are worth', async (t) => {
  const worth = new Map([
    ['USD', 1],
    ['JPY', 0.0067],
  ])
  rates = { asOf: '2026-11-01', worth }
  t.teardown(() => {
    rates = undefined
  })
  const signal_spec = 'coffee, CPM under 1 USD'
  const answer = readAnswer(await ask({ time_budget, signal_spec, pagination: { max_results: 100 } }))
  t.match(answer.message, 'CPM up to 1 USD, other currencies compared by rates of 2026-11-01.')
  t.match(answer.ext, { tributary: { read_as: { max_cpm: { rates_as_of: '2026-11-01' } } } })
  const isDear = answer.signals.map(({ pricing_options: options = [] }) => {
    const cpms = options.filter(({ model, currency = '' }) => model === 'cpm' && worth.has(currency))
    return cpms.length > 0 && cpms.every(({ cpm = 0, currency = '' }) => cpm * (worth.get(currency) ?? 0) > 1)
  })
  t.ok(isDear.indexOf(true) > 0, 'something is too dear')
  t.ok(isDear.slice(isDear.indexOf(true)).every(Boolean), 'and stands last, in whatever currency')
})

test('a question too long to be read in full says so', async (t) => {
  const { warnings } = await asked({ signal_spec: `coffee ${'and not tea, '.repeat(700)}` })
  t.match(warnings, [{ code: 'QUESTION_CUT', field: 'signal_spec' }])
})
