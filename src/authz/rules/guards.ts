/**
 * The conditional rules of a published definition, as runtime guards (schema core/signal-definition: "SDK generators
 * that drop those keywords need equivalent runtime guards"). They report and never repair.
 */
import type { SignalDefinition } from './definition-schema.js'

const OFFLINE = new Set([
  'offline_survey',
  'public_record_census',
  'public_record_voter_file',
  'public_record_other',
  'offline_transaction',
])
const CORE_RIGHTS = new Set(['access', 'erasure', 'objection'])

type Guard = (
  definition: SignalDefinition,
  row: Readonly<Record<string, unknown>>,
) => { field: string; message: string } | undefined

const guards: readonly Guard[] = [
  ({ methodology, modeling }) =>
    methodology === 'modeled' && !modeling
      ? { field: 'modeling', message: 'methodology is modeled, and modeling is missing' }
      : undefined,
  ({ audience_expansion, modeling }) =>
    audience_expansion && !modeling
      ? { field: 'modeling', message: 'audience_expansion is true, and modeling is missing' }
      : undefined,
  ({ data_sources, onboarder }) =>
    data_sources?.some((source) => OFFLINE.has(source)) && !onboarder
      ? { field: 'onboarder', message: 'an offline or public-record source needs onboarder' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights && !rights.channels.some((channel) => channel.rights.some((right) => CORE_RIGHTS.has(right)))
      ? { field: 'data_subject_rights', message: 'no channel supports access, erasure or objection' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights?.channels.some(({ url, email }) => url === undefined && email === undefined)
      ? { field: 'data_subject_rights', message: 'a channel has neither url nor email' }
      : undefined,
  ({ value_type, taxonomy }) =>
    value_type === 'categorical' && taxonomy && !taxonomy.value_mappings
      ? { field: 'taxonomy', message: 'a categorical signal with a taxonomy needs value_mappings' }
      : undefined,
  ({ categories, taxonomy }) =>
    categories && taxonomy?.value_mappings?.some(({ value }) => !categories.includes(value))
      ? { field: 'taxonomy', message: 'value_mappings names a value that allowed_values has not' }
      : undefined,
  (_, row) =>
    row.audience_scope === 'single_domain' && row.originating_domain === undefined
      ? { field: 'originating_domain', message: 'audience_scope is single_domain without it' }
      : undefined,
  ({ name }) => (name === undefined ? { field: 'name', message: 'the name is missing' } : undefined),
  ({ value_type }) =>
    value_type === undefined ? { field: 'value_type', message: 'the value_type is missing' } : undefined,
]

/** What looks wrong in a definition as a whole. */
export function guard(definition: SignalDefinition, row: Readonly<Record<string, unknown>>) {
  return guards.flatMap((check) => check(definition, row) ?? [])
}
