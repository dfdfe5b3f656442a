import { test } from 'tap'
import { explainUpstreams, type UpstreamSources } from '../../src/explain/upstream.js'

const HOUR = 3_600_000

test('what an upstream lacks, and what is read of it as something else, is told in words', async (t) => {
  const agentUrl = 'https://far.example/mcp'
  const entry = { id: 'far', agentUrl, url: agentUrl, name: 'Far', source: 'static', auth: { type: 'none' } }
  const status = {
    ...entry,
    state: 'fresh',
    listings: 1,
    dropped: {},
    outages: { pricing: HOUR, coverage: 0 },
    quirks: ['signal_id', 'of_a_newer_release'],
  }
  const sources = {
    roster: () => ({ entries: [entry], excluded: [] }),
    statuses: () => [status],
    ...{ accountStatuses: () => [], slices: () => [], contributions: async () => [] },
  } as unknown as UpstreamSources
  const [told] = await explainUpstreams([agentUrl], sources)
  t.same(told?.carried, [{ part: 'pricing', given_at: '1970-01-01T01:00:00.000Z' }, { part: 'coverage' }])
  t.same(told?.quirks, [
    'signal_id is read as signal_ref',
    'a newer release that read it found of_a_newer_release, of which this one knows only the name',
  ])
})
