import { test } from 'tap'
import { definitionOf, diagnoseDefinition } from '../../src/authz/rules/provider-definition.js'
import type { Rules } from '../../src/authz/rules/rules.js'
import { compiled } from './compiled.js'

const base = { id: 's', name: 'Signal', value_type: 'binary' }

function read(row: Record<string, unknown>) {
  const { rules } = compiled({ signals: [row], authorized_agents: [] })
  if (!rules) throw new Error('the test document does not compile')
  const signal = rules.signal(rules.signalNumber('s'))
  return { definition: definitionOf(rules, 's'), diagnostics: diagnoseDefinition(signal) }
}

const modeling = {
  method: 'lookalike',
  seed_source: { type: 'panel', provider_signed: false },
  training_data_jurisdictions: ['DE'],
  ai_act_risk_class: 'minimal',
}
const rights = (...names: string[]) => ({ channels: [{ rights: names, email: 'privacy@p.example' }] })

test('every field that conforms is passed on, allowed values as categories', async (t) => {
  const row = {
    ...base,
    description: 'What it is',
    value_type: 'categorical',
    allowed_values: ['a', 'b'],
    tags: ['auto'],
    range: { min: 0, max: 1, unit: 'score' },
    restricted_attributes: ['age', 'a_newer_word'],
    policy_categories: ['children_directed'],
    taxonomy: {
      ref: 'https://tax.example/1',
      values: [{ id: '1' }],
      value_mappings: [{ value: 'a', taxonomy_value_id: '1' }],
    },
    segmentation_criteria: 'x',
    criteria_url: 'https://p.example/criteria',
    data_sources: ['web_usage'],
    methodology: 'modeled',
    audience_expansion: true,
    device_expansion: false,
    refresh_cadence: 'daily',
    lookback_window: 'monthly',
    onboarder: { match_keys: ['email'] },
    countries: ['DE'],
    consent_basis: ['consent'],
    art9_basis: 'explicit_consent',
    modeling,
    data_subject_rights: rights('access'),
    last_updated: '2026-01-01T00:00:00Z',
    dts_compliant_version: '1.2',
  }
  const { allowed_values, ...others } = row
  const { definition, diagnostics } = read({ ...row, ext: { ours: 1 }, unknown: 2 })
  t.strictSame(definition, { ...others, categories: allowed_values })
  t.same(diagnostics, [])
})

test('a field that does not conform is left out and named, the others stand', async (t) => {
  const wrong: [string, unknown][] = [
    ['description', 7],
    ['value_type', 'boolean'],
    ['allowed_values', []],
    ['range', { min: 2, max: 1 }],
    ['range', { min: '0', max: 1 }],
    ['restricted_attributes', 'age'],
    ['countries', []],
    ['consent_basis', ['because']],
    ['art9_basis', 'because'],
    ['data_sources', ['somewhere']],
    ['taxonomy', { ref: 'no uri', values: [{ id: '1' }] }],
    ['modeling', { ...modeling, method: 'magic' }],
    ['modeling', JSON.parse(`{"__proto__": {"x": 1}, ${JSON.stringify(modeling).slice(1)}`)],
    ['data_subject_rights', { channels: [] }],
    ['last_updated', 'yesterday'],
    ['segmentation_criteria', 'x'.repeat(501)],
    ['name', ''],
  ]
  for (const [field, value] of wrong) {
    const { definition, diagnostics } = read({ ...base, segmentation_criteria: 'stays', [field]: value })
    const published = field === 'allowed_values' ? 'categories' : field
    t.notOk(Object.hasOwn(definition ?? {}, published), `${field} ${JSON.stringify(value)}`)
    t.match(diagnostics, [{ at: `/signals/0/${field}`, effect: 'skipped' }])
    if (field !== 'name') t.equal(definition?.name, 'Signal')
  }
})

test('the conditional rules of a definition are told and change nothing', async (t) => {
  const broken: [Record<string, unknown>, string][] = [
    [{ methodology: 'modeled' }, 'modeling'],
    [{ audience_expansion: true }, 'modeling'],
    [{ data_sources: ['offline_transaction'] }, 'onboarder'],
    [{ data_sources: ['web_usage', 'public_record_other'] }, 'onboarder'],
    [{ data_subject_rights: rights('portability') }, 'data_subject_rights'],
    [{ data_subject_rights: { channels: [{ rights: ['access'] }] } }, 'data_subject_rights'],
    [
      { value_type: 'categorical', taxonomy: { ref: 'https://t.example/', values: [{ id: '1' }] } },
      'taxonomy',
    ],
    [{ audience_scope: 'single_domain' }, 'originating_domain'],
    [{ name: undefined }, 'name'],
    [{ value_type: undefined }, 'value_type'],
  ]
  for (const [fields, field] of broken) {
    const { definition, diagnostics } = read({ ...base, ...fields })
    t.match(diagnostics, [{ at: `/signals/0/${field}`, effect: 'noted' }], JSON.stringify(fields))
    const { audience_scope, ...passed } = fields
    t.match(definition, JSON.parse(JSON.stringify(passed)))
  }
})

test('rules that are kept are silent', async (t) => {
  const kept = [
    { methodology: 'modeled', audience_expansion: true, modeling },
    { data_sources: ['offline_survey'], onboarder: { match_keys: ['email'] } },
    { data_subject_rights: rights('erasure', 'portability') },
    { audience_scope: 'single_domain', originating_domain: 'p.example' },
  ]
  for (const fields of kept) t.same(read({ ...base, ...fields }).diagnostics, [])
})

test('a signal that is not published has no definition', async (t) => {
  const rules = compiled({ signals: [base], authorized_agents: [] }).rules as Rules
  t.equal(definitionOf(rules, 'other'), undefined)
  t.equal(definitionOf(rules, '__proto__'), undefined)
})
