import { test } from 'tap'
import type { TObject, TSchema } from '../../src/adcp/schema.js'
import { SignalRow } from '../../src/adcp/signal.js'
import { published } from '../../src/merge/definition.js'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

/** Every field that has members of its own, with all that the protocol names (schema core/signal-definition-enrichment). */
const INNER = {
  taxonomy: {
    ref: 'https://taxonomy.example/7',
    version: '1.1',
    segtax: 4,
    etag: 'W/"7"',
    values: [{ id: '412', path: 'Home > Garden', modifiers: ['recent'] }],
    value_mappings: [
      { value: 'lawn', taxonomy_value_id: '412', path: 'Home > Garden', modifiers: ['recent'] },
    ],
    parent_match_behavior: 'exact_only',
  },
  onboarder: {
    match_keys: ['email'],
    pre_onboarding_audience_expansion: false,
    pre_onboarding_device_expansion: true,
    pre_onboarding_precision_level: 'household',
  },
  modeling: {
    method: 'lookalike',
    seed_source: { type: 'panel', provider_signed: true },
    training_data_jurisdictions: ['DE'],
    ai_act_risk_class: 'limited',
    disclosure: {
      required: true,
      jurisdictions: [{ country: 'DE', regulation: 'AI Act', audience: 'buyer' }],
      notes: 'ask',
    },
  },
  data_subject_rights: {
    upstream_source_domain: 'source.example',
    channels: [
      { rights: ['access'], url: 'https://rights.example/', languages: ['de'], countries: ['DE'] },
      { rights: ['objection'], email: 'rights@source.example' },
    ],
    response_sla_days: 30,
    ccpa_opt_out_url: 'https://rights.example/ccpa',
  },
}

test('what an upstream says inside a field is published whole', async (t) => {
  const { modeling, ...others } = INNER
  const rows = [
    row(1, INNER),
    row(2, { ...others, modeling, taxonomy: { ...INNER.taxonomy, secret_sauce: 1, etag: null } }),
    row(3, { taxonomy: { ...INNER.taxonomy, segtax: 'four' }, onboarder: INNER.onboarder }),
  ]
  const agent = await startMcpAgent(wholesaleAgent(rows, '1').handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'only', url: agent.url }])
  const { signals } = await over.wholesale({ fields: Object.keys(INNER) })
  const byId = new Map(
    signals.map((signal: { signal_ref: { signal_id: string } }) => [signal.signal_ref.signal_id, signal]),
  )
  const said = (at: number) => {
    const signal = (byId.get(`signal_${at}`) ?? {}) as Record<string, unknown>
    return Object.fromEntries(Object.keys(INNER).map((field) => [field, signal[field]]))
  }
  t.strictSame(said(1), INNER)
  const { etag: _, ...taxonomy } = INNER.taxonomy
  t.strictSame(said(2), { ...INNER, taxonomy }, 'an unknown member and a null are left out')
  const { onboarder } = INNER
  t.strictSame(
    said(3),
    { taxonomy: undefined, onboarder, modeling: undefined, data_subject_rights: undefined },
    'what is wrong inside costs the field alone',
  )
})

/** The places of members that `outer` names and `inner` would cut; an object without members of its own cuts none. */
function cut(outer: TSchema, inner: TSchema | undefined, place: string): string[] {
  if (!inner) return [place]
  if (outer.type === 'array') return inner.type === 'array' ? cut(outer.items, inner.items, `${place}[]`) : []
  const [named, kept] = [outer, inner].map((schema) => (schema as TObject).properties ?? {})
  if (!named || !kept || Object.keys(kept).length === 0) return []
  return Object.entries(named).flatMap(([name, of]) => cut(of, kept[name], `${place}.${name}`))
}

test('reading a row cuts nothing that may be published', (t) => {
  const read = SignalRow.properties as Record<string, TSchema>
  t.same(
    Object.entries(published).flatMap(([field, schema]) => cut(schema, read[field], field)),
    [],
  )
  t.end()
})
