/**
 * The registry of the demo market: `GET /api/registry/agents` as the specification says ("Registry listing") and with
 * the habits of the real one (docs/protocol.md#registry): every record claims mcp, one agent stands there twice,
 * health comes from a crawler that errs, flags add sub-objects, a weak ETag.
 */
import { hash } from 'node:crypto'
import { TASKS } from './agent.js'
import { type Handler, sendJson } from './host.js'
import { AGENTS, FOGBANK, type Party } from './parties.js'

type Entry = {
  party: Omit<Party, 'id'> & { id: string }
  type: 'signals' | 'sales' | 'creative'
  online: boolean
  error?: string
  added: string
}

const PATH = '/api/registry/agents'
const CHECKED = '2026-11-19T22:00:00Z'
const VERIFICATION_MODES = ['spec', 'live']
const MEASUREMENT_FILTERS = ['metric_id', 'accreditation', 'q']

const PINECREST: Entry['party'] = {
  id: 'pinecrest',
  name: 'Pinecrest Sales Agent',
  domain: 'sales.pinecrest.example',
  url: 'https://sales.pinecrest.example/mcp',
  description: 'Sells the display and video inventory of Pinecrest sites.',
  company: 'Pinecrest Publishing',
}

const ENTRIES: readonly Entry[] = [
  { party: AGENTS.northwind, type: 'signals', online: true, added: '2025-10-06' },
  { party: AGENTS.meridian, type: 'signals', online: true, added: '2025-11-14' },
  { party: PINECREST, type: 'sales', online: true, added: '2025-12-01' },
  { party: AGENTS.harborlight, type: 'signals', online: true, added: '2026-01-20' },
  {
    party: AGENTS.oldmill,
    type: 'signals',
    online: false,
    error: 'tools/list timed out',
    added: '2025-10-09',
  },
  { party: AGENTS.gullwing, type: 'signals', online: true, added: '2026-08-30' },
  { party: FOGBANK, type: 'signals', online: false, error: 'connection refused', added: '2025-10-30' },
  {
    party: { ...AGENTS.northwind, id: 'northwind-emea', company: 'Northwind EMEA' },
    type: 'signals',
    online: true,
    added: '2026-03-02',
  },
]

function record({ party, type, added }: Entry): Record<string, unknown> {
  return {
    name: party.name,
    url: party.url,
    type,
    protocol: 'mcp',
    description: party.description,
    mcp_endpoint: party.url,
    added_date: added,
    contact: { name: party.company, email: `partners@${party.domain}`, website: `https://${party.domain}` },
    member: {
      slug: party.id,
      display_name: party.company,
      membership_tier: 'builder',
      membership_tier_label: 'Builder',
      is_founding_member: added < '2025-11-01',
    },
  }
}

function healthOf({ online, error }: Entry) {
  const seen = online
    ? { response_time_ms: 42, tools_count: Object.keys(TASKS).length, resources_count: 0 }
    : { error }
  return { health: { online, checked_at: CHECKED, ...seen }, stats: {} }
}

function capabilitiesOf({ type, online }: Entry) {
  const tools = online ? Object.entries(TASKS).map(([name, description]) => ({ name, description })) : []
  return {
    capabilities: {
      tools_count: tools.length,
      tools,
      ...(type === 'signals'
        ? {
            signals_capabilities: {
              audience_types: [],
              can_match: false,
              can_activate: online,
              can_get_signals: online,
            },
          }
        : {}),
    },
  }
}

function complianceOf({ online }: Entry) {
  return {
    compliance: {
      tracks: { core: online ? 'pass' : 'fail' },
      streak_days: online ? 31 : 0,
      last_checked_at: CHECKED,
      adcp_version: '3.1',
      monitoring_paused: false,
      check_interval_hours: 24,
      verified: false,
      verified_roles: [],
    },
  }
}

const propertiesOf = () => ({
  publisher_domains: [],
  property_summary: { total_count: 0, count_by_type: {}, tags: [], publisher_count: 0 },
})

function listing(query: URLSearchParams): Record<string, unknown> {
  const asked = (flag: string) => query.get(flag) === 'true'
  // Measurement filters imply that type, and a badge is held by nobody here.
  const none =
    MEASUREMENT_FILTERS.some((filter) => query.has(filter)) ||
    query.has('verification_mode') ||
    asked('verified')
  const type = query.get('type')
  const agents = ENTRIES.filter((entry) => !none && (type === null || type === entry.type)).map((entry) => ({
    ...record(entry),
    ...(asked('health') ? healthOf(entry) : {}),
    ...(asked('capabilities') ? capabilitiesOf(entry) : {}),
    ...(asked('compliance') ? complianceOf(entry) : {}),
    ...(asked('properties') ? propertiesOf() : {}),
  }))
  return { agents, count: agents.length }
}

/** Serves the listing. */
export function registryHandler(): Handler {
  return ({ request, response, url }) => {
    if (url.pathname !== PATH) return sendJson(response, 404, { error: 'not found' })
    if (request.method !== 'GET') return sendJson(response, 405, { error: 'GET only' }, { allow: 'GET' })
    const wrong = url.searchParams
      .getAll('verification_mode')
      .filter((mode) => !VERIFICATION_MODES.includes(mode))
    if (wrong.length > 0) {
      const error = `Invalid verification_mode value(s): ${wrong.join(', ')}`
      return sendJson(response, 400, { error, valid_values: VERIFICATION_MODES })
    }
    const body = listing(url.searchParams)
    const etag = `W/"${hash('sha256', JSON.stringify(body), 'base64url').slice(0, 27)}"`
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, { etag }).end()
      return
    }
    sendJson(response, 200, body, { etag })
  }
}
