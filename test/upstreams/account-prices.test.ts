import { test } from 'tap'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { createPassingBlobs } from '../../src/upstreams/rows/storage.js'
import { createAccountPrices } from '../../src/upstreams/walk/account-prices.js'
import { createLearntStore } from '../../src/upstreams/walk/learnt.js'
import { countTurns } from '../support/turns.js'
import { configOf, openUpstreams, row, urlOf } from '../support/upstream-world.js'

test('prices are taken from a large answer in portions, and its rows are as if it had told none', async (t) => {
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: 'https://a.example/mcp' }]))
  const entry = upstreams.roster().entries.find(({ agentUrl }) => agentUrl === urlOf(upstreams, 'a'))
  if (!entry) throw new Error('it is configured')
  const encoded = (more: object) =>
    Array.from({ length: 3_000 }, (_, at) =>
      Buffer.from(JSON.stringify({ ...row(at), description: 'x'.repeat(1_000), ...more })),
    )
  const without = readRows(encoded({ pricing_options: undefined }))
  const rows = readRows(encoded({}))
  t.not(rows.bytes.byteLength, without.bytes.byteLength)
  const turns = countTurns()
  const said = { kind: 'answer' as const, payload: { cache_scope: 'account' }, rows }
  const learnt = createLearntStore({ blobs: createPassingBlobs(), onTrouble: t.fail })
  const outcome = await createAccountPrices(entry, learnt).shared(said)
  t.ok(turns.stop() > 50)
  if (outcome.kind !== 'answer') throw new Error(outcome.kind)
  const { bytes, ends, digests, segments } = outcome.rows
  t.ok(Buffer.from(bytes).equals(without.bytes))
  t.same(
    { ends, digests, segments },
    { ...{ ends: without.ends, digests: without.digests }, segments: without.segments },
  )
})
