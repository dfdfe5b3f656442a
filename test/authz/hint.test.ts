import { test } from 'tap'
import { canonicalUrl } from '../../src/adcp/url.js'
import { decide } from '../../src/authz/rules/verdict.js'
import { compiled, NOW } from './compiled.js'

/** [called, listed, what the hint must say] */
const cases: [string, string[], RegExp | undefined][] = [
  ['https://a.example/mcp', ['https://a.example/mcp/'], /with a trailing slash: https:\/\/a.example\/mcp\/$/],
  ['https://a.example/mcp/', ['https://a.example/mcp'], /without the trailing slash/],
  ['https://a.example/mcp', ['https://a.example/MCP'], /another letter case in the path/],
  ['https://a.example/mcp', ['https://a.example'], /the origin only/],
  ['https://a.example/', ['https://a.example/mcp'], /with a path/],
  ['https://a.example/v1/mcp', ['https://a.example/v1'], /without the \/mcp suffix/],
  ['https://a.example/v1', ['https://a.example/v1/a2a'], /with the \/a2a suffix/],
  ['https://a.example/mcp', ['https://a.example/other'], /another path/],
  ['https://a.example/mcp', ['http://a.example/mcp'], /with http:/],
  ['https://a.example:8443/mcp', ['https://a.example/mcp'], /another port/],
  ['https://a.example/mcp', ['https://a.example/mcp?key=1'], /another query/],
  ['https://a.example/mcp', ['https://www.a.example/mcp'], /lists www.a.example, not a.example/],
  ['https://www.a.example/mcp', ['https://a.example/mcp'], /lists a.example, not www.a.example/],
  ['https://a.example/mcp', ['https://a.example/other', 'https://a.example/mcp/'], /trailing slash/],
  ['https://a.example/mcp', ['https://b.example/mcp'], undefined],
  ['https://a.example/mcp', ['https://evil-a.example/mcp'], undefined],
]

for (const [called, listed, words] of cases) {
  test(`an agent called ${called} is told how it nearly is one of ${listed}`, async (t) => {
    const entries = listed.map((url) => ({
      url,
      authorized_for: 'x',
      authorization_type: 'signal_ids',
      signal_ids: ['s'],
    }))
    const file = compiled({ signals: [{ id: 's' }], authorized_agents: entries })
    const verdict = decide(file, 's', canonicalUrl(called) ?? '', NOW)
    t.match(verdict, { outcome: 'unauthorized', reason: 'agent_not_listed' }, 'a near miss is a miss')
    const hint = verdict.outcome === 'unauthorized' ? verdict.hint : ''
    if (words) t.match(hint, words)
    else t.equal(hint, undefined)
  })
}

test('an agent that is listed for properties only is told so', async (t) => {
  const entry = {
    url: 'https://a.example/',
    authorized_for: 'x',
    authorization_type: 'property_ids',
    property_ids: ['p'],
  }
  const file = compiled({ signals: [{ id: 's' }], authorized_agents: [entry] })
  const verdict = decide(file, 's', 'https://a.example/', NOW)
  t.match(verdict, { reason: 'agent_not_listed_for_signal', hint: /about properties/ })
})
