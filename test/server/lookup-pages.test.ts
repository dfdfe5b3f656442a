import { test } from 'tap'
import { OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const ref = (n: number) => ({ scope: 'data_provider', data_provider_domain: 'p.example', signal_id: `s${n}` })
const idsOf = ({ signals }: { signals: { signal_ref: { signal_id: string } }[] }) =>
  signals.map(({ signal_ref }) => signal_ref.signal_id)

test('an exact lookup is paged in the order asked, for its caller and its question only', async (t) => {
  const { call } = await startServer(t)
  const signal_refs = [ref(7), ref(999), ref(3), ref(5)]
  const ask = (pagination: object, more: object = {}, headers = {}) =>
    call('get_signals', { signal_refs, pagination, ...more }, headers)
  const first = await ask({ max_results: 2 })
  t.same(idsOf(first), ['s7', 's3'])
  t.match(first.pagination, { has_more: true, total_count: 3 })
  t.match(first.message, /^Found 3 of the 4 signals asked for\. This page has 2 of them\./)
  const { cursor } = first.pagination
  const second = await ask({ max_results: 2, cursor })
  t.same(idsOf(second), ['s5'])
  t.match(second.pagination, { has_more: false })
  t.same(idsOf(await ask({ max_results: 2, cursor: null })), ['s7', 's3'], 'null is the first page')

  for (const answer of [
    await ask({ cursor }, { signal_refs: [ref(7)] }),
    await ask({ cursor }, {}, { authorization: `Bearer ${OTHER_TOKEN}` }),
    await ask({ cursor: 'forged' }),
  ]) {
    t.match(answer, { adcp_error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' } })
  }
  const all = await call('get_signals', {
    signal_refs: Array.from({ length: 120 }, (_, n) => ref(n)),
    pagination: { max_results: 500 },
  })
  t.equal(all.signals.length, 100, 'a page has 100 at most')
})

test('a reference that is repeated, or comes in both forms, is one signal that was asked for', async (t) => {
  const { call } = await startServer(t)
  const legacy = { source: 'catalog', data_provider_domain: 'p.example', id: 's7' }
  const named = (url: string) => ({ scope: 'signal_source', signal_source_url: url, signal_id: 's7' })
  const twice = await call('get_signals', { signal_refs: [ref(7), ref(7)], signal_ids: [legacy] })
  t.match(twice.message, /^Found 1 of the 1 signal asked for/)
  const lacking = [ref(7), named('https://none.example'), named('HTTPS://none.example:443/'), ref(7)]
  const other = await call('get_signals', { signal_refs: [...lacking, ref(999)] })
  t.match(other.message, /^Found 1 of the 3 signals asked for/)
  t.match(other.errors ?? other.warnings, [
    { message: /signal_refs\[1\], signal_refs\[2\].*signal_refs\[4\]/ },
  ])
})
