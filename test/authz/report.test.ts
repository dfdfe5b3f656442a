import { test } from 'tap'
import { entryFor, evidenceOf, renderReport, reportProvider } from '../../src/authz/report.js'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import { compiled, NOW, stateWith } from './compiled.js'

const AGENT = 'https://agent.example/mcp'
const file = {
  signals: [
    { id: 'ev', name: 'EV \u001b[31mred', value_type: 'binary', tags: ['auto'] },
    { id: 'suv', name: 'SUV', value_type: 'binary', tags: ['auto'], methodology: 'modeled' },
    { id: 'bare', name: 'Bare', value_type: 'binary', countries: ['us'] },
  ],
  authorized_agents: [
    {
      url: AGENT,
      authorized_for: 'x',
      authorization_type: 'signal_tags',
      signal_tags: ['auto', 'none'],
      countries: ['US'],
      effective_until: '2027-01-01T00:00:00Z',
    },
    { url: AGENT, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ['ev'] },
    { url: 'not a url', authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ['ev'] },
  ],
}
const state = stateWith(file)
const provider = compileProvider(state)

test('evidence names the document, its validator, its times and the entries that matched', async (t) => {
  const verdict = decide(provider, 'suv', AGENT, NOW)
  t.match(evidenceOf(state, provider, verdict), {
    provider: 'p.example',
    outcome: 'authorized',
    countries: ['US'],
    document: {
      url: 'https://p.example/.well-known/adagents.json',
      validator: { kind: 'etag', value: '"v1"' },
      fetchedAt: '2026-03-01T00:00:00.000Z',
      expiresAt: '2026-03-08T00:00:00.000Z',
    },
    grants: [{ at: '/authorized_agents/0', until: '2027-01-01T00:00:00.000Z', countries: ['US'] }],
  })
})

test('evidence for a refusal gives the reason, what it means and the near miss', async (t) => {
  const near = `${AGENT}/`
  const refused = evidenceOf(state, provider, decide(provider, 'ev', near, NOW))
  t.match(refused, {
    outcome: 'unauthorized',
    reason: 'agent_not_listed',
    hint: /trailing slash/,
    grants: [],
  })
  const missing = {
    domain: 'q.example',
    problem: { reason: 'no_file', message: 'the server answered 404', since: NOW, passing: false },
  } as const
  const nothing = compileProvider(missing)
  t.match(evidenceOf(missing, nothing, decide(nothing, 'ev', AGENT, NOW)), {
    outcome: 'unverifiable',
    reason: 'no_file',
    explanation: /publishes no adagents.json/,
    problem: { message: /404/, since: '2026-03-01T00:00:00.000Z' },
  })
})

test('keys in the query of a url stay out of the evidence', async (t) => {
  const { document, ...rest } = state
  const keyed = {
    ...rest,
    ...(document && { document: { ...document, url: 'https://cdn.example/a?sig=secret' } }),
  }
  t.notMatch(JSON.stringify(evidenceOf(keyed, provider, { outcome: 'not_applicable' })), /secret/)
})

test('the report reads the file as verdicts do', async (t) => {
  const report = reportProvider(state, provider, NOW, ['https://agent.example/', AGENT])
  t.same(
    report.signals.map(({ id }) => id),
    ['ev', 'suv', 'bare'],
  )
  t.match(report.grants, [
    { at: '/authorized_agents/0', agent: AGENT, by: 'signal_tags', names: ['auto', 'none'] },
    { at: '/authorized_agents/1', agent: AGENT, by: 'signal_ids', names: ['ev'] },
  ])
  t.match(report.coverage, [
    { agent: 'https://agent.example/', listed: false, authorized: 0, published: 3, hint: /with a path/ },
    { agent: AGENT, listed: true, authorized: 2, published: 3 },
  ])
  t.same(
    report.diagnostics.map(({ at, effect }) => [effect, at]),
    [
      ['skipped', '/authorized_agents/2'],
      ['noted', '/authorized_agents/0'],
      ['noted', '/signals/1/modeling'],
      ['skipped', '/signals/2/countries'],
    ],
  )
})

test('a report of nothing says why', async (t) => {
  const problem = {
    reason: 'invalid_file',
    message: 'the file is HTML, not JSON',
    since: NOW,
    passing: false,
  } as const
  const missing = { domain: 'q.example', problem }
  const lines = renderReport(reportProvider(missing, compileProvider(missing), NOW)).join('\n')
  t.match(lines, /unverifiable \(invalid_file\)/)
  t.match(lines, /HTML/)
})

test('the text shows everything and no control character of the provider', async (t) => {
  const lines = renderReport(reportProvider(state, provider, NOW, ['https://agent.example/']))
  const text = lines.join('\n')
  for (const words of [
    'Signals: 3',
    'Grants: 2',
    '2 of 3 signals',
    'Diagnostics:',
    '/authorized_agents/2',
    '"v1"',
  ]) {
    t.ok(text.includes(words), words)
  }
  t.notOk(text.includes('\u001b'))
})

test('the entry for an agent, added to the file, authorizes it', async (t) => {
  const agent = 'https://New.example/mcp'
  for (const grant of [{ ids: ['bare', 'ev'] }, { tags: ['auto'] }]) {
    const entry = entryFor(agent, grant, 'Resale')
    const after = compiled({ ...file, authorized_agents: [...file.authorized_agents, entry] })
    t.match(decide(after, 'ev', 'https://new.example/mcp', NOW), { outcome: 'authorized', entries: [3] })
  }
  t.throws(() => entryFor('new.example', { ids: ['ev'] }, 'x'), RangeError)
  t.throws(() => entryFor(agent, { ids: [] }, 'x'), RangeError)
})
