/**
 * GET /openapi.json: every REST path of this server, as OpenAPI 3.1. The protocol's own tasks are not REST: they are called
 * at `/mcp` and `/a2a`.
 */
import type { FastifyInstance } from 'fastify'
import type { Parameter as Known } from '../server/parameters.js'
import { SORTS } from './feed-question.js'
import { SCHEMAS, type SchemaName } from './openapi-schemas.js'

type Parameter = {
  name: string
  description?: string
  schema: { type?: string; enum?: readonly string[]; [more: string]: unknown }
  required?: boolean
  explode?: boolean
}
type Who = 'everybody' | 'callers' | 'operators'
type Operation = {
  summary: string
  who: Who
  answer?: SchemaName
  /** The status of a success. Default: 200. */
  status?: number
  /** The media type of an answer that is not JSON. */
  media?: string
  parameters?: readonly Parameter[]
  body?: SchemaName
  /** It has an ETag, and is not sent again to who has it (server/answer/conditional.ts). */
  conditional?: boolean
  /** Statuses of refusals, in addition to those of `AT_THE_DOOR`. */
  refusals?: readonly number[]
}

const REFUSALS: Readonly<Record<number, string>> = {
  400: 'A parameter is wrong; `parameter` names it',
  401: 'Without the key of a caller, or with a wrong one',
  403: 'The key is of another role, or the request came from a foreign page',
  404: 'Nothing has this name',
  409: 'It is refused; `error` says why',
  429: 'Too many requests; Retry-After says when',
  503: 'Not now; Retry-After says when',
}

const text = (name: string, description?: string, more: object = {}): Parameter => ({
  ...{ name, ...(description && { description }), schema: { type: 'string' } },
  ...more,
})
const several = (name: string, description?: string): Parameter => ({
  ...{ name, ...(description && { description }), explode: true },
  schema: { type: 'array', items: { type: 'string' } },
})
const number = (name: string, description?: string): Parameter => ({
  ...{ name, ...(description && { description }), schema: { type: 'number' } },
})

const SELECTION = [
  text('q', 'Words that are looked for.'),
  several('provider', 'A domain or a name.'),
  several('type', 'marketplace, owned or custom.'),
  several('country', 'ISO 3166-1 alpha-2.'),
  several('destination', '`platform:NAME` or `agent:URL`.'),
  several('upstream', 'The id of a seller.'),
  several('value_type', 'binary, categorical or numeric.'),
  number('max_cpm'),
  text('currency', 'Of max_cpm. Default: USD.'),
  number('max_percent'),
  number('min_coverage'),
  text('account', "One of the caller's accounts."),
]

const OPERATIONS: Readonly<Record<string, Readonly<Record<string, Operation>>>> = {
  '/healthz': { get: { summary: 'Whether the process is alive', who: 'everybody', answer: 'Health' } },
  '/readyz': {
    get: {
      summary: 'Whether there is a feed to serve',
      who: 'everybody',
      answer: 'Readiness',
      refusals: [503],
    },
  },
  '/metrics': { get: { summary: 'Metrics for Prometheus', who: 'everybody', media: 'text/plain' } },
  '/openapi.json': { get: { summary: 'This document', who: 'everybody', media: 'application/json' } },
  '/api/registry/agents': {
    get: {
      summary: 'The federated registry listing',
      who: 'everybody',
      answer: 'RegistryListing',
      parameters: [
        text('type', 'Of the agents.'),
        text('q', 'Part of a metric id, of agents of type measurement: at most 64 characters.'),
        ...['health', 'capabilities', 'properties', 'compliance', 'verified'].map((name) =>
          text(name, '`true` counts.'),
        ),
        ...['metric_id', 'accreditation', 'verification_mode', 'creative_operation'].map((name) =>
          several(name),
        ),
      ],
      conditional: true,
      refusals: [400, 401, 403, 429],
    },
  },
  '/explain': {
    get: {
      summary: 'Why a signal or an upstream is, or is not, in the feed',
      who: 'operators',
      answer: 'Explanation',
      parameters: [
        text('ref', 'A handle, `domain/signal_id`, a segment id, the id or url of an upstream.', {
          required: true,
        }),
        text('caller', 'As this caller sees it. Needed with what its request asks for.'),
        text('account'),
        text('filters', 'JSON, as in get_signals.'),
        text('destinations', 'JSON, as in get_signals.'),
        several('country'),
      ],
      refusals: [400],
    },
  },
  '/refresh': {
    post: {
      summary: 'Reads an upstream from its first row to its last',
      who: 'operators',
      answer: 'Refresh',
      status: 202,
      parameters: [text('upstream', 'Its id.', { required: true })],
      refusals: [404, 503],
    },
  },
  '/console/api/session': {
    get: { summary: 'Who is signed in', who: 'everybody', answer: 'Session' },
    post: {
      summary: 'Signs in: a key becomes a cookie',
      who: 'everybody',
      body: 'Key',
      answer: 'Session',
      refusals: [400, 401, 429],
    },
    delete: { summary: 'Signs out', who: 'callers', status: 204 },
  },
  '/console/api/signals': {
    get: {
      summary: 'Rows of the feed as the caller sees it',
      who: 'callers',
      answer: 'Signals',
      parameters: [
        ...SELECTION,
        { name: 'sort', schema: { enum: SORTS } },
        { name: 'limit', schema: { type: 'integer', minimum: 1, maximum: 100 } },
        text('after', '`next` of the page before.'),
      ],
      refusals: [400, 503],
    },
  },
  '/console/api/facets': {
    get: {
      summary: 'How many of the same signals each value of a facet has',
      who: 'callers',
      answer: 'Facets',
      parameters: SELECTION,
      refusals: [400, 503],
    },
  },
  '/console/api/signal': {
    get: {
      summary: 'One signal; for operators with why it is there or not',
      who: 'callers',
      answer: 'OneSignal',
      parameters: [text('id', 'Its handle.', { required: true }), text('account')],
      refusals: [400, 404],
    },
  },
  '/console/api/live': {
    get: {
      summary: 'Says when something has changed: events `changed` and `beat`',
      who: 'callers',
      media: 'text/event-stream',
      refusals: [503],
    },
  },
  '/console/api/overview': {
    get: { summary: 'What is published, and from which configuration', who: 'operators', answer: 'Overview' },
  },
  '/console/api/upstreams': {
    get: {
      summary: 'Upstreams, those that give nothing first, and registries',
      who: 'operators',
      answer: 'Upstreams',
      parameters: [text('q', 'Part of the id, name or url.'), text('id', 'That one alone.')],
    },
  },
  '/console/api/providers': {
    get: {
      summary: 'Providers, those in trouble first',
      who: 'operators',
      answer: 'Providers',
      parameters: [text('q', 'Part of the domain.')],
    },
  },
  '/console/api/callers': {
    get: { summary: 'Callers and their accounts, without secrets', who: 'operators', answer: 'Callers' },
  },
  '/console/api/activity': {
    get: {
      summary: 'The last activations, open jobs and subscriptions',
      who: 'operators',
      answer: 'Activity',
    },
  },
  '/console/api/jobs': {
    get: {
      summary: 'Jobs that have not ended, those that failed most often first',
      who: 'operators',
      answer: 'Jobs',
    },
  },
  '/console/api/history': {
    get: {
      summary: 'How an upstream was doing',
      who: 'operators',
      answer: 'History',
      parameters: [
        text('upstream', 'Its id.', { required: true }),
        {
          name: 'span',
          description: 'A point a minute, or a point an hour.',
          schema: { enum: ['hours', 'days'] },
        },
      ],
      refusals: [404],
    },
  },
  '/console/api/actions': {
    post: {
      summary: 'Does something to the running server',
      who: 'operators',
      body: 'Action',
      answer: 'Acted',
      refusals: [400, 404, 409, 503],
    },
  },
  '/console/api/audit': {
    get: { summary: 'What operators did, newest first', who: 'operators', answer: 'Audit' },
  },
}

const SECURITY: Readonly<Record<Who, readonly object[]>> = {
  everybody: [{}, { key: [] }],
  callers: [{ key: [] }, { session: [] }],
  operators: [{ key: [] }, { session: [] }],
}
/** Refusals before a route's own work: by key, role, rate limit and parameters that it does not take (console/entrance.ts). */
const AT_THE_DOOR: Readonly<Record<Who, readonly number[]>> = {
  everybody: [],
  callers: [400, 401, 403, 429],
  operators: [400, 401, 403, 429],
}

const TEXT = { schema: { type: 'string' } }
const IF_NONE_MATCH = {
  in: 'header',
  name: 'If-None-Match',
  description: 'The ETag of what is held.',
  ...TEXT,
}
const ETAG = { ETag: { description: 'Names what is sent.', ...TEXT } }

const json = (name: SchemaName) => ({
  'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
})

function operationOf({
  summary,
  who,
  answer,
  status = 200,
  media,
  parameters = [],
  body,
  conditional = false,
  refusals = [],
}: Operation) {
  const content = answer ? json(answer) : media ? { [media]: { schema: {} } } : undefined
  const statuses = [...new Set([...AT_THE_DOOR[who], ...refusals])].sort()
  const given = [
    ...parameters.map((one) => ({ in: 'query', ...one })),
    ...(conditional ? [IF_NONE_MATCH] : []),
  ]
  return {
    ...{ summary, security: SECURITY[who] },
    ...(who === 'operators' && { description: 'For keys with `role: operator`.' }),
    ...(given.length > 0 && { parameters: given }),
    ...(body && { requestBody: { required: true, content: json(body) } }),
    responses: {
      [status]: { description: summary, ...(conditional && { headers: ETAG }), ...(content && { content }) },
      ...(conditional && { 304: { description: 'What is held is what would be sent', headers: ETAG } }),
      ...Object.fromEntries(
        statuses.map((one) => [
          one,
          {
            description: REFUSALS[one],
            content: json(one === 503 && answer === 'Readiness' ? 'Readiness' : 'Error'),
          },
        ]),
      ),
    },
  }
}

function openApi(version: string, publicUrl: string) {
  return {
    openapi: '3.1.0',
    info: { title: 'Tributary', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: publicUrl }],
    paths: Object.fromEntries(
      Object.entries(OPERATIONS).map(([path, methods]) => [
        path,
        Object.fromEntries(
          Object.entries(methods).map(([method, operation]) => [method, operationOf(operation)]),
        ),
      ]),
    ),
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description: 'A key of the configuration, or a JWT of its issuer.',
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'tributary_session',
          description: 'Under /console/api only; what changes something repeats `csrf` in x-tributary-csrf.',
        },
      },
    },
  }
}

/** The parameters that the document gives a route: it takes no others. */
export function parametersOf(path: string, method: string): readonly Known[] {
  const operation = OPERATIONS[path]?.[method === 'HEAD' ? 'get' : method.toLowerCase()]
  return (operation?.parameters ?? []).map(({ name, schema }) => ({
    ...{ name, many: schema.type === 'array' },
    ...(schema.enum && { oneOf: schema.enum }),
  }))
}

/** `version`: of the product. */
export function addOpenApi(app: FastifyInstance, version: string, publicUrl: string): void {
  const document = openApi(version, publicUrl)
  app.get('/openapi.json', () => document)
}
