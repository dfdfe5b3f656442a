import { test } from 'tap'
import { explainUpstreams, type UpstreamSources } from '../../src/explain/upstream.js'

const HOUR = 3_600_000

test('when an upstream last gave what stands in for a missing part is told where it ever gave it', async (t) => {
  const agentUrl = 'https://far.example/mcp'
  const entry = { id: 'far', agentUrl, url: agentUrl, name: 'Far', source: 'static', auth: { type: 'none' } }
  const status = {
    ...entry,
    state: 'fresh',
    listings: 1,
    dropped: {},
    outages: { pricing: HOUR, coverage: 0 },
  }
  const sources = {
    roster: () => ({ entries: [entry], excluded: [] }),
    statuses: () => [status],
    ...{ accountStatuses: () => [], slices: () => [], contributions: async () => [] },
  } as unknown as UpstreamSources
  const [told] = await explainUpstreams([agentUrl], sources)
  t.same(told?.carried, [{ part: 'pricing', given_at: '1970-01-01T01:00:00.000Z' }, { part: 'coverage' }])
})
