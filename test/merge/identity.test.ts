import { test } from 'tap'
import { handleKey, type Identity, identityKey, identityOf, signalHandle } from '../../src/merge/identity.js'
import { agentUrl, listing } from '../feed/world.js'
import { offer, rowOf } from './offers.js'

const foreign = 'https://elsewhere.example/mcp'

test('every row is named both ways, so that older clients find it', (t) => {
  const row = rowOf([offer('north')])
  t.same(row.signal_ref, { scope: 'data_provider', data_provider_domain: 'provider.example', signal_id: 's' })
  t.same(row.signal_id, { source: 'catalog', data_provider_domain: 'provider.example', id: 's' })
  t.end()
})

test("a source's own signal belongs to the upstream that sent it, whatever source it claims", (t) => {
  const claimed = { scope: 'signal_source' as const, signal_source_url: foreign, signal_id: 's' }
  const sold = offer('north', { signal_ref: claimed }, { outcome: 'not_applicable' })
  const identity = identityOf(sold.listing, sold.agentUrl) as Identity
  const row = rowOf([sold], { identity })
  t.same(row.signal_ref, { ...claimed, signal_source_url: agentUrl('north') })
  t.match(row.ext.tributary.offers[0], { claimed_source: foreign })
  t.not(identityKey(identity), identityKey(identityOf(sold.listing, agentUrl('south')) as Identity))
  t.end()
})

test('a row without any reference goes by its handle', (t) => {
  const { signal_ref: _, ...bare } = listing('s', { signal_agent_segment_id: 'any / thing' })
  const sold = { ...offer('north', {}, { outcome: 'not_applicable' }), listing: bare }
  const identity = identityOf(bare, sold.agentUrl) as Identity
  const row = rowOf([sold], { identity })
  const handle = signalHandle(identityKey(identity))
  t.equal(row.signal_agent_segment_id, handle)
  t.same(row.signal_ref, { scope: 'signal_source', signal_source_url: agentUrl('north'), signal_id: handle })
  t.same(row.signal_id, { source: 'agent', agent_url: agentUrl('north'), id: handle })
  t.end()
})

test('only handles of ours have a key', (t) => {
  t.equal(handleKey(signalHandle('provider x y'))?.byteLength, 16)
  for (const text of ['', 'sig_', `sig_${'a'.repeat(23)}`, `sig_${'!'.repeat(22)}`, 'seg_1']) {
    t.equal(handleKey(text), undefined)
  }
  t.end()
})
