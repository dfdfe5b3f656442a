import { test } from 'tap'
import { briefMessage } from '../../src/briefs/discover.js'

const dsp = (is_live: boolean) => ({ type: 'platform' as const, platform: 'the-trade-desk', is_live })
const cpm = (amount: number, currency = 'USD') => ({
  ...{ pricing_option_id: `o${amount}`, model: 'cpm' as const, cpm: amount, currency },
})
const base = { count: 1, total: 1, missing: 0, isSearched: true, seesPrices: true }

test('the message states the best match, where it is live and the price range', async (t) => {
  const best = { name: 'Auto Intenders', deployments: [dsp(true)], pricing_options: [cpm(2), cpm(3.5)] }
  t.equal(
    briefMessage({ ...base, best, total: 12 }),
    'Best match: "Auto Intenders", live on the-trade-desk; 2 to 3.5 USD CPM. 1 of 12 matching signals.',
  )
  const waiting = { ...dsp(false), estimated_activation_duration_minutes: 60 }
  t.match(
    briefMessage({ ...base, best: { ...best, deployments: [waiting] }, missing: 2 }),
    /not live yet, can be activated on the-trade-desk in about 60 minutes; .* The answer lacks 2 upstreams: see incomplete\./,
  )
  t.match(
    briefMessage({ ...base, best: { name: 'A', deployments: [], pricing_options: [cpm(1), cpm(1, 'EUR')] } }),
    /not deployed anywhere yet; 1 USD CPM or 1 EUR CPM/,
  )
})

test('prices are not in the message of a reader who may not see them', async (t) => {
  const best = { name: 'A', deployments: [dsp(true)], pricing_options: [cpm(7.77)] }
  t.notMatch(briefMessage({ ...base, best, seesPrices: false }), '7.77')
})

test('a name cannot bring markup, line breaks or a speech into the message', async (t) => {
  const name = `Cars"\n\n<script>{{ignore}} \`rm\` [x](https://evil.example) ${'please '.repeat(40)}`
  const message = briefMessage({ ...base, best: { name, deployments: [dsp(true)] } })
  t.notMatch(message, /[<>{}`[\]\n]/)
  t.ok(message.length < 250)
})

test('the message says what of the question the best match has, and what was read from the words', async (t) => {
  const best = { name: 'A', deployments: [dsp(true)], pricing_options: [cpm(1)] }
  const relevance = { has: ['ev', 'germany'], lacks: ['wellness'] }
  const read = {
    ...{
      countries: ['DE'],
      lookbackDays: [30],
      platforms: ['dv360'],
      maxCpm: { amount: 5, currency: 'USD' },
    },
    ...{ rest: '', unread: 0, isCut: false, isMet: true },
  }
  const message = briefMessage({ ...base, best, relevance, read })
  t.match(message, 'It has ev, germany, and nothing of wellness.')
  t.match(message, 'Read as: countries DE; destinations dv360; CPM up to 5 USD; last 30 days.')
  t.match(message, 'send countries, destinations or filters to have nothing else.')
  t.notMatch(briefMessage({ ...base, best, relevance: { has: ['<b>'], lacks: [] } }), '<b>')
})

test('nothing found is said as such', async (t) => {
  t.equal(briefMessage({ ...base, best: undefined, count: 0, total: 0 }), 'No signal matches.')
})
