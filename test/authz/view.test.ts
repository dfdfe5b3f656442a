import { test } from 'tap'
import {
  type CompiledProvider,
  compileProviders,
  judgeAt,
  policyFor,
  publishable,
  type Verdict,
} from '../../src/authz/rules/verdict.js'
import { compiled, EXPIRES, NOW, stateWith } from './compiled.js'

const AGENT = 'https://agent.example/mcp'
const DAY = 86_400_000
const entry = { url: AGENT, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ['s'] }
const file = (more = {}) => ({
  signals: [{ id: 's', name: 'S', value_type: 'binary' }],
  authorized_agents: [{ ...entry, ...more }],
})

const viewAt = (provider: CompiledProvider, at: number) =>
  judgeAt(new Map([['p.example', provider]]), { policy: 'strict', providers: {} }, at)('p.example')

test('the stamp moves when a verdict may: with the file, a window edge and the cap', async (t) => {
  const iso = (ms: number) => new Date(ms).toISOString()
  const window = { effective_from: iso(NOW + DAY), effective_until: iso(NOW + 2 * DAY) }
  const provider = compiled(file(window))
  const stamp = (at: number) => viewAt(provider, at).stamp
  t.equal(stamp(NOW), stamp(NOW + DAY - 1))
  t.not(stamp(NOW), stamp(NOW + DAY))
  t.equal(stamp(NOW + DAY), stamp(NOW + 2 * DAY - 1))
  t.not(stamp(NOW + DAY), stamp(NOW + 2 * DAY))
  t.not(stamp(NOW + 2 * DAY), stamp(EXPIRES))
  t.not(stamp(NOW), viewAt(compiled(file()), NOW).stamp)
  t.equal(viewAt(compiled(file()), NOW).stamp, viewAt(compiled(file()), NOW + DAY).stamp)
})

test('a provider that proves nothing defines nothing', async (t) => {
  const provider = compiled(file())
  t.match(viewAt(provider, NOW).definition('s'), { id: 's', name: 'S' })
  t.equal(viewAt(provider, EXPIRES).definition('s'), undefined)
  t.match(viewAt(provider, EXPIRES).decide('s', AGENT), { outcome: 'unverifiable', reason: 'expired' })
})

test('one document is opened once, whoever publishes it and however often', async (t) => {
  const one = stateWith(file())
  const first = compileProviders([one, { ...one, domain: 'q.example' }])
  const rules = first.get('p.example')?.rules
  t.equal(first.get('q.example')?.rules, rules)
  const second = compileProviders([{ ...one, expiresAt: EXPIRES + DAY }])
  t.equal(second.get('p.example')?.rules, rules)
  t.equal(second.get('p.example')?.expiresAt, EXPIRES + DAY)
  t.equal(second.has('q.example'), false)
})

test('each policy publishes what it says', async (t) => {
  const verdicts: Verdict[] = [
    { outcome: 'authorized', entries: [0] },
    { outcome: 'not_applicable' },
    { outcome: 'unverifiable', reason: 'no_file' },
    { outcome: 'unauthorized', reason: 'agent_not_listed' },
  ]
  const published = (policy: 'strict' | 'lenient' | 'observe') =>
    verdicts.filter((verdict) => publishable(verdict, policy)).map(({ outcome }) => outcome)
  t.same(published('strict'), ['authorized', 'not_applicable'])
  t.same(published('lenient'), ['authorized', 'not_applicable', 'unverifiable'])
  t.same(published('observe'), ['authorized', 'not_applicable', 'unverifiable', 'unauthorized'])
})

test('a provider has its own policy or the common one', async (t) => {
  const settings = { policy: 'strict', providers: { 'p.example': { policy: 'observe' } } } as const
  t.equal(policyFor(settings, 'p.example'), 'observe')
  t.equal(policyFor(settings, 'q.example'), 'strict')
  t.equal(policyFor(settings, 'constructor'), 'strict')
})
