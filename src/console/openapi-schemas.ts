/** The JSON of the REST paths, as JSON Schema: the members that clients may rely on. Later releases may add others. */

const text = { type: 'string' }
const number = { type: 'number' }
const flag = { type: 'boolean' }
const moment = { type: 'string', format: 'date-time' }
const list = (items: object) => ({ type: 'array', items })
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
/** `optional`: members that need not be there. */
const record = (required: Record<string, object>, optional: Record<string, object> = {}) => ({
  type: 'object',
  properties: { ...required, ...optional },
  required: Object.keys(required),
})

const problem = record({ reason: text, message: text }, { means: text, remedy: text, since: moment })
/** A signal at one moment: its lowest CPM, its coverage in percent, how many upstreams sell it. */
const standing = record({ sellers: number }, { cpm: number, currency: text, coverage: number })
const numbers = list({ type: ['number', 'null'] })

/** By the name under which OpenAPI refers to them. */
export const SCHEMAS = {
  Error: record({ error: text }, { parameter: text, valid_values: list(text) }),
  Health: record({ status: { const: 'ok' } }),
  Readiness: record(
    { status: { enum: ['ready', 'starting', 'stopping'] } },
    {
      revision: record({ built: number, wanted: number, behind_ms: number }),
      configuration: record(
        { revision: text },
        { file_revision: text, problem: text, replicas: { type: 'object', additionalProperties: number } },
      ),
      storage: record({ problem: text }),
    },
  ),
  RegistryListing: record(
    { agents: list({ type: 'object' }), count: number },
    { incomplete: list(record({ description: text })) },
  ),
  Explanation: record(
    {
      ref: text,
      kind: { enum: ['signal', 'upstream', 'unknown'] },
      reason: text,
      explanation: text,
      upstreams: list(ref('Upstream')),
    },
    {
      ...{ detail: text, hint: text },
      snapshot: record({ published_at: moment, signals: number }),
      signal: { type: 'object' },
      provider: { type: 'object' },
      former: record({ id: text, agent_url: text, name: text, source: text }),
      left_at: moment,
      view: { type: 'object' },
      also: list(record({ handle: text, upstream: text })),
    },
  ),
  Refresh: record({ upstream: text, reading: { const: 'full' } }),
  Caller: record({
    id: text,
    role: { enum: ['buyer', 'operator'] },
    destinations: list({ type: 'object' }),
    accounts: list(text),
  }),
  Session: record({ version: text }, { caller: ref('Caller'), csrf: text }),
  Key: record({ key: text }),
  Signal: {
    ...record({
      signal_agent_segment_id: text,
      signal_ref: { type: 'object' },
      name: text,
      deployments: list({ type: 'object' }),
    }),
    additionalProperties: true,
    description: 'A row as get_signals gives it (schema signals/get-signals-response of the protocol).',
  },
  Signals: record(
    {
      snapshot: text,
      total: number,
      sort: text,
      get_signals: { type: 'object', description: 'The arguments of get_signals for the same.' },
      wholesale_feed_version: text,
      warnings: list(record({ code: text, message: text })),
      signals: list(ref('Signal')),
    },
    { next: { ...text, description: '`after` of the next page.' } },
  ),
  Facets: record({
    snapshot: text,
    total: number,
    counted: number,
    facets: {
      type: 'object',
      additionalProperties: list(record({ value: text, count: number })),
    },
  }),
  OneSignal: record(
    {},
    {
      signal: ref('Signal'),
      get_signals: { type: 'object' },
      explanation: ref('Explanation'),
      sources: list(record({ upstream: text, agent_url: text, words: { type: 'object' } })),
      definition: { type: 'object' },
      evidence: list(record({ at: text, text })),
      changes: list(
        record(
          { at: moment, kind: { enum: ['created', 'updated', 'priced', 'removed', 'many'] } },
          { before: standing, after: standing, fields: list(text), count: number },
        ),
      ),
      seen_by: list(record({ caller: text, access: text, prices: text })),
    },
  ),
  Overview: record({
    feed: record(
      { signals: number, revision: record({ built: number, wanted: number, behind_ms: number }) },
      { snapshot: text, published_at: moment },
    ),
    configuration: record(
      { revision: text, file: text, content: text },
      { problem: text, replicas: { type: 'object', additionalProperties: number } },
    ),
    limits: list(record({ name: text, used_bytes: number, limit_bytes: number, hits: number })),
    refused_rows: { type: 'object', additionalProperties: number },
    limited_callers: list(record({ caller: text, times: number })),
  }),
  Upstream: record(
    {
      ...{ id: text, agent_url: text, name: text, source: text, has_credential: flag },
      state: { enum: ['starting', 'fresh', 'stale', 'absent'] },
      ...{ rows: number, read: text, published: number, withheld: number },
      reasons: { type: 'object', additionalProperties: number },
      dropped: { type: 'object', additionalProperties: number },
      carried: list(record({ part: { enum: ['rows', 'pricing', 'coverage'] } }, { given_at: moment })),
      notes: list(text),
      quirks: list(text),
      refused: list({ type: 'object' }),
      accounts: list({ type: 'object' }),
    },
    {
      ...{ protocol: text, mode: text, problem, hint: text },
      ...{ walked_at: moment, confirmed_at: moment, next_attempt_at: moment },
      last_answer: record({ at: moment, ms: number }),
    },
  ),
  Upstreams: record({
    total: number,
    means: { type: 'object', additionalProperties: text },
    states: record({ absent: number, stale: number, starting: number, fresh: number }),
    upstreams: list(ref('Upstream')),
    excluded: list(record({ url: text, reason: text, means: text })),
    excluded_total: number,
    registries: list(
      record(
        { url: text, agents: number, diagnostics: list(text), unvouched: flag },
        { read_at: moment, leave_at: moment, problem },
      ),
    ),
  }),
  Providers: record({
    total: number,
    providers: list(
      record(
        { domain: text },
        {
          file: record({
            ...{ url: text, bytes: number, fetched_at: moment, sha256: text },
            ...{ signals: number, agents: number, agent_urls: list(text) },
          }),
          ...{ confirmed_at: moment, proves_until: moment, next_attempt_at: moment, problem },
          held_pointer: record({ url: text, adopt_at: moment }),
        },
      ),
    ),
  }),
  Callers: record(
    {
      anonymous: { enum: ['deny', 'metadata'] },
      rate_limit: record({ per_second: number, burst: number }),
      callers: list(
        record({
          ...{ id: text, role: text, has_key: flag, suspended: flag, signs: text },
          ...{ accounts: list(text), destinations: list({ type: 'object' }), credentials_for: list(text) },
        }),
      ),
      accounts: list(
        record(
          { caller: text, account: text, upstream: text, state: text, rate_card: flag, rows: number },
          { confirmed_at: moment, problem },
        ),
      ),
    },
    { jwt: record({ issuer: text, audience: text }) },
  ),
  History: record({
    step_seconds: number,
    at: list(number),
    rows: numbers,
    published: numbers,
    ms: numbers,
    failing: numbers,
  }),
  Activity: record({
    activations: list(
      record(
        {
          caller: text,
          action: text,
          handle: text,
          upstream: text,
          outcome: text,
          destinations: list({ type: 'object' }),
          asked_at: moment,
          updated_at: moment,
        },
        {
          ...{ task_id: text, seen_as: text, name: text, account: { type: 'object' } },
          problem: record({ code: text, message: text }, { upstream_code: text }),
        },
      ),
    ),
    jobs: list(record({ kind: text, lane: text, open: number })),
    tasks: list(
      record(
        { id: text, caller: text, type: text, status: text, created_at: moment, updated_at: moment },
        { upstream: text },
      ),
    ),
    usage: list(record({ caller: text, agent_url: text, rows: number, state: text, reported_at: moment })),
    subscriptions: list(
      record(
        {
          ...{ caller: text, account: text, subscriber: text, suspended: flag },
          ...{ pending: number, failures: number },
        },
        { host: text, reason: text, failing_since: moment, next_attempt_at: moment },
      ),
    ),
  }),
  Jobs: record({
    jobs: list(
      record(
        {
          ...{ id: text, kind: text, lane: text, caller: text, attempts: number },
          ...{ is_held: flag, created_at: moment },
        },
        { next_attempt_at: moment },
      ),
    ),
  }),
  Action: record({ action: text, subject: text }),
  Acted: record({ action: text, subject: text }, { until: { const: 'reload' } }),
  Audit: record({
    entries: list(record({ at: moment, who: text, action: text, subject: text, outcome: text })),
  }),
}

export type SchemaName = keyof typeof SCHEMAS
