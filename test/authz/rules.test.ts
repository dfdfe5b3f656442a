import { test } from 'tap'
import { decide } from '../../src/authz/rules/verdict.js'
import { compiled, EXPIRES, NOW } from './compiled.js'

const AGENT = 'https://agent.example/mcp'
const signals = [
  { id: 'ev', name: 'EV', value_type: 'binary', tags: ['auto', 'green'] },
  { id: 'suv', name: 'SUV', value_type: 'binary', tags: ['auto'] },
  { id: 'plain', name: 'Plain', value_type: 'binary' },
]
const entry = { url: AGENT, authorized_for: 'x' }
const ids = (signal_ids: unknown, more = {}) => ({
  ...entry,
  authorization_type: 'signal_ids',
  signal_ids,
  ...more,
})
const tags = (signal_tags: unknown, more = {}) => ({
  ...entry,
  authorization_type: 'signal_tags',
  signal_tags,
  ...more,
})

type Case = { rule: string; entries: unknown; ask?: string; agent?: string; at?: number; is: unknown }
const authorized = (entries: number[], countries?: string[]) => ({
  outcome: 'authorized',
  entries,
  ...(countries && { countries }),
})
const unauthorized = (reason: string) => ({ outcome: 'unauthorized', reason })
const notListed = unauthorized('agent_not_listed')
const notForSignal = unauthorized('agent_not_listed_for_signal')
const outside = unauthorized('outside_window')
const day = (offset: number) => new Date(NOW + offset * 86_400_000).toISOString()

const cases: Case[] = [
  { rule: 'an id that is named', entries: [ids(['ev'])], is: authorized([0]) },
  { rule: 'an id that is not named', entries: [ids(['suv'])], is: notForSignal },
  { rule: 'one of the tags of the signal', entries: [tags(['green'])], is: authorized([0]) },
  { rule: 'a tag the signal does not carry', entries: [tags(['green'])], ask: 'suv', is: notForSignal },
  { rule: 'a signal without tags', entries: [tags(['auto'])], ask: 'plain', is: notForSignal },
  {
    rule: 'an id that signals[] does not have',
    entries: [ids(['nope'])],
    ask: 'nope',
    is: unauthorized('signal_not_published'),
  },
  { rule: 'entries of one agent add up', entries: [ids(['suv']), tags(['green'])], is: authorized([1]) },
  {
    rule: 'all entries that match are named',
    entries: [ids(['ev']), tags(['auto'])],
    is: authorized([0, 1]),
  },
  { rule: 'two tags of one entry name it once', entries: [tags(['auto', 'green'])], is: authorized([0]) },
  { rule: 'another agent', entries: [ids(['ev'], { url: 'https://b.example/' })], is: notListed },
  {
    rule: 'the url in another spelling',
    entries: [ids(['ev'], { url: 'HTTPS://Agent.Example:443/%6dcp#x' })],
    is: authorized([0]),
  },
  { rule: 'no entries at all', entries: [], is: notListed },
  {
    rule: 'property types grant nothing for signals',
    entries: [{ ...entry, authorization_type: 'property_tags', property_tags: ['auto'] }],
    is: notForSignal,
  },
  {
    rule: 'an unknown type grants nothing, whatever it carries',
    entries: [{ ...entry, authorization_type: 'all', signal_ids: ['ev'], signal_tags: ['auto'] }],
    is: notForSignal,
  },
  {
    rule: 'the type says which list counts',
    entries: [ids(['suv'], { signal_tags: ['green'] })],
    is: notForSignal,
  },
  {
    rule: 'countries limit',
    entries: [ids(['ev'], { countries: ['US', 'CA'] })],
    is: authorized([0], ['CA', 'US']),
  },
  {
    rule: 'countries of several entries add up',
    entries: [ids(['ev'], { countries: ['US'] }), tags(['auto'], { countries: ['CA', 'US'] })],
    is: authorized([0, 1], ['CA', 'US']),
  },
  {
    rule: 'an entry without countries frees the others',
    entries: [ids(['ev'], { countries: ['US'] }), tags(['auto'])],
    is: authorized([0, 1]),
  },
  { rule: 'empty countries void the entry', entries: [ids(['ev'], { countries: [] })], is: notListed },
  {
    rule: 'malformed countries void the entry',
    entries: [ids(['ev'], { countries: ['us'] })],
    is: notListed,
  },
  { rule: 'countries as text void the entry', entries: [ids(['ev'], { countries: 'US' })], is: notListed },
  {
    rule: 'a window that is open',
    entries: [ids(['ev'], { effective_from: day(0), effective_until: day(1) })],
    is: authorized([0]),
  },
  { rule: 'a window that has not opened', entries: [ids(['ev'], { effective_from: day(1) })], is: outside },
  {
    rule: 'a window closes at its very end',
    entries: [ids(['ev'], { effective_until: day(0) })],
    is: outside,
  },
  {
    rule: 'an open window wins over a closed one',
    entries: [ids(['ev'], { effective_until: day(-1) }), tags(['auto'], { effective_from: day(-1) })],
    is: authorized([1]),
  },
  {
    rule: 'countries of a closed window do not count',
    entries: [ids(['ev'], { effective_until: day(-1) }), tags(['auto'], { countries: ['FR'] })],
    is: authorized([1], ['FR']),
  },
  {
    rule: 'a window that is no date voids the entry',
    entries: [ids(['ev'], { effective_until: 'soon' })],
    is: notListed,
  },
  {
    rule: 'a date without a time voids the entry',
    entries: [ids(['ev'], { effective_from: '2020-01-01' })],
    is: notListed,
  },
  {
    rule: 'a day that does not exist voids it',
    entries: [ids(['ev'], { effective_from: '2025-02-30T00:00:00Z' })],
    is: notListed,
  },
  {
    rule: 'a window turned around voids it',
    entries: [ids(['ev'], { effective_from: day(1), effective_until: day(-1) })],
    is: notListed,
  },
  {
    rule: 'a bad entry does not void the others',
    entries: [null, 7, 'x', [], {}, ids('ev'), ids(['ev'])],
    is: authorized([6]),
  },
  { rule: 'a list with a wrong item voids its entry', entries: [ids(['ev', 5])], is: notListed },
  { rule: 'an empty list voids its entry', entries: [ids([])], is: notListed },
  { rule: 'an entry without a type is void', entries: [{ ...entry, signal_ids: ['ev'] }], is: notListed },
  { rule: 'an entry without a url is void', entries: [ids(['ev'], { url: undefined })], is: notListed },
  {
    rule: 'an entry whose url is no url is void',
    entries: [ids(['ev'], { url: 'agent.example/mcp' })],
    is: notListed,
  },
  {
    rule: 'a missing label limits nothing',
    entries: [ids(['ev'], { authorized_for: undefined })],
    is: authorized([0]),
  },
  {
    rule: 'names of the object prototype are names like any',
    entries: [ids(['__proto__', 'constructor'])],
    ask: '__proto__',
    is: unauthorized('signal_not_published'),
  },
  {
    rule: 'past its cap nothing is authorized',
    entries: [ids(['ev'])],
    at: EXPIRES,
    is: { outcome: 'unverifiable', reason: 'expired' },
  },
  { rule: 'up to its cap it is', entries: [ids(['ev'])], at: EXPIRES - 1, is: authorized([0]) },
]

for (const { rule, entries, ask = 'ev', agent = AGENT, at = NOW, is } of cases) {
  test(rule, async (t) => {
    const { hint, ...verdict } = {
      hint: '',
      ...decide(compiled({ signals, authorized_agents: entries }), ask, agent, at),
    }
    t.same(verdict, is)
  })
}

test('a definition that is there twice grants by the tags of both, and the first defines', async (t) => {
  const twice = [...signals, { id: 'plain', name: 'Other', value_type: 'numeric', tags: ['auto'] }]
  const file = { signals: twice, authorized_agents: [tags(['auto'])] }
  t.match(decide(compiled(file), 'plain', AGENT, NOW), notForSignal)
  const reversed = { ...file, signals: twice.toReversed() }
  t.match(decide(compiled(reversed), 'plain', AGENT, NOW), notForSignal)
  const rules = compiled(file).rules
  t.equal(rules?.signal(rules.signalNumber('plain')).row.name, 'Plain')
  t.match(rules?.diagnostics, [{ at: '/signals/3', effect: 'skipped' }])
})

test('signals that are no signals are skipped, the others stand', async (t) => {
  const odd = [null, 'ev', { id: 'with space' }, { id: 7 }, { name: 'no id' }, ...signals]
  const file = compiled({ signals: odd, authorized_agents: [ids(['ev'])] })
  t.match(decide(file, 'ev', AGENT, NOW), authorized([0]))
  t.equal(file.rules?.diagnostics.length, 5)
})

test('a file without signals publishes none', async (t) => {
  for (const list of [undefined, {}, 'ev', []]) {
    const file = compiled({ signals: list, authorized_agents: [ids(['ev'])] })
    t.same(decide(file, 'ev', AGENT, NOW), unauthorized('signal_not_published'))
  }
})
