/** What buyers' agents ask for in `serving.ts`: what they select, and the messages that say so over MCP and A2A. */
import { ACCOUNT } from './serving-options.js'

export const PAGE = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
export const FIELDS = { fields: ['name', 'description', 'pricing_options', 'value_type', 'data_sources'] }
export const DESTINATION = { destinations: [{ type: 'platform', platform: 'dv360' }] }
export const COUNTRIES = { countries: ['DE'] }
export const EVERY = { ...FIELDS, ...DESTINATION, ...COUNTRIES }
export const OWN_PRICES = { account: { account_id: ACCOUNT } }
export const NARROW = { filters: { catalog_types: ['marketplace'], data_providers: ['p3.example'] } }
export const A2A_1_0 = { 'a2a-version': '1.0' }

/** Asks the task over MCP. */
export const overMcp = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_signals', arguments: input },
  })

/** Asks it over A2A 1.0. */
export const overA2a = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
    params: {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
    },
  })

/** Asks it over A2A 0.3. */
export const overA2a03 = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'message/send' },
    params: {
      message: {
        ...{ kind: 'message', messageId: 'm', role: 'user' },
        parts: [{ kind: 'data', data: { skill: 'get_signals', input } }],
      },
    },
  })
