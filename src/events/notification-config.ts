/**
 * An account's webhook subscriptions: checked, kept and shown (schema core/notification-config). Nothing is delivered
 * yet, so an endpoint cannot prove itself and an active subscription is refused; a paused one is kept for later.
 */
import { nearest } from '../adcp/nearest.js'
import { createAddressPolicy } from '../net/address.js'

export type NotificationConfig = Readonly<Record<string, unknown>>

/** What is wrong with an account's subscriptions; `path` leads from the account to the member. */
type ConfigProblem = {
  code: 'INVALID_REQUEST' | 'UNSUPPORTED_FEATURE'
  path: string
  message: string
  suggestion: string
}

/** Events that are about an account; the others of the enum are about a media buy and do not belong here. */
const ACCOUNT_EVENTS: ReadonlySet<string> = new Set([
  'creative.status_changed',
  'creative.purged',
  'product.created',
  'product.updated',
  'product.priced',
  'product.removed',
  'signal.created',
  'signal.updated',
  'signal.priced',
  'signal.removed',
  'wholesale_feed.bulk_change',
])

const SUBSCRIBER = /^[A-Za-z0-9_.:-]{1,64}$/
const SCHEMES: ReadonlySet<unknown> = new Set(['Bearer', 'HMAC-SHA256'])
const MIN_CREDENTIALS = 32
const LOCAL_NAME = /(^|\.)(localhost|local|internal|home\.arpa)$/
const MEMBERS: ReadonlySet<string> = new Set([
  'subscriber_id',
  'url',
  'event_types',
  'authentication',
  'active',
  'ext',
])

const publicOnly = createAddressPolicy({ allowHttp: false, allowNetworks: [] })

/** The normalised url; undefined when it is not https to a public name or address. */
function publicUrl(text: unknown): string | undefined {
  if (typeof text !== 'string' || text.length > 2_048 || !URL.canParse(text)) return undefined
  const url = new URL(text)
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '') return undefined
  const host = url.hostname.replace(/\.$/, '')
  const literal = host.startsWith('[') ? host.slice(1, -1) : host
  const isAddress = host.startsWith('[') || /^[\d.]+$/.test(host)
  if (isAddress ? !publicOnly.permits(literal, 'https:') : !host.includes('.') || LOCAL_NAME.test(host)) {
    return undefined
  }
  url.hostname = host
  return url.href
}

function problemOfAuthentication(value: unknown): string | undefined {
  if (value === undefined) return undefined
  const { schemes, credentials } = (value ?? {}) as Record<string, unknown>
  if (!Array.isArray(schemes) || schemes.length !== 1 || !SCHEMES.has(schemes[0])) {
    return 'schemes must hold one of Bearer and HMAC-SHA256.'
  }
  return typeof credentials === 'string' && credentials.length >= MIN_CREDENTIALS
    ? undefined
    : `credentials must have at least ${MIN_CREDENTIALS} characters.`
}

function problemOf(
  config: NotificationConfig,
  seen: ReadonlySet<unknown>,
): (Omit<ConfigProblem, 'path'> & { at: string }) | undefined {
  const invalid = (at: string, message: string, suggestion: string) => ({
    ...{ code: 'INVALID_REQUEST' as const, at, message, suggestion },
  })
  const { subscriber_id: subscriber, url, event_types: events, authentication, active = true } = config
  if (typeof subscriber !== 'string' || !SUBSCRIBER.test(subscriber)) {
    const message = 'subscriber_id must be 1 to 64 of A-Z, a-z, 0-9, _ . : -'
    return invalid('subscriber_id', message, 'Name the subscription in such characters, "mirror" say.')
  }
  if (seen.has(subscriber)) {
    const suggestion = 'Give each subscription of an account a subscriber_id of its own.'
    return invalid('subscriber_id', 'This subscriber_id stands twice in the request.', suggestion)
  }
  if (publicUrl(url) === undefined) {
    const message = 'url must be https, to a public host, without credentials.'
    return invalid('url', message, 'Send a public https url; credentials go into authentication.')
  }
  if (!Array.isArray(events) || events.length === 0) {
    return invalid(
      'event_types',
      'event_types must name at least one event: without them nothing would be sent.',
      `Send some of ${[...ACCOUNT_EVENTS].join(', ')}.`,
    )
  }
  const foreign = events.findIndex((event) => !ACCOUNT_EVENTS.has(event))
  if (foreign >= 0) {
    const [near] = nearest(String(events[foreign]), ACCOUNT_EVENTS)
    const suggestion = near ? `Did you mean "${near}"?` : `Send some of ${[...ACCOUNT_EVENTS].join(', ')}.`
    return invalid(`event_types[${foreign}]`, 'This event is not one of an account.', suggestion)
  }
  if (new Set(events).size < events.length) {
    return invalid('event_types', 'An event stands twice.', 'Name each event once.')
  }
  const credentials = problemOfAuthentication(authentication)
  if (credentials) {
    const suggestion = 'Send {schemes: ["HMAC-SHA256"], credentials}, or leave authentication out.'
    return invalid('authentication', credentials, suggestion)
  }
  if (typeof active !== 'boolean')
    return invalid('active', 'active must be true or false.', 'Send active as true or false.')
  const unknown = Object.keys(config).find((name) => !MEMBERS.has(name))
  if (unknown !== undefined) {
    const [near] = nearest(unknown, MEMBERS)
    const suggestion = near ? `Did you mean "${near}"?` : `${[...MEMBERS].join(', ')} are known.`
    return invalid('', 'A subscription has only the members of its schema.', suggestion)
  }
  if (!active) return undefined
  const message = 'This agent does not deliver webhooks yet.'
  const suggestion = 'Register the subscription with active false.'
  return { code: 'UNSUPPORTED_FEATURE', at: 'active', message, suggestion }
}

/** The first thing wrong with an account's subscriptions. */
export function configProblem(configs: readonly NotificationConfig[]): ConfigProblem | undefined {
  const seen = new Set<unknown>()
  for (const [index, config] of configs.entries()) {
    const problem = problemOf(config, seen)
    if (problem) {
      const { at, ...rest } = problem
      return { ...rest, path: `notification_configs[${index}]${at && `.${at}`}` }
    }
    seen.add(config.subscriber_id)
  }
  return undefined
}

/** As it is kept: the host normalised, the default of `active` spelled out. The config has no problem. */
export function keptConfig(config: NotificationConfig): NotificationConfig {
  return { ...config, url: publicUrl(config.url), active: config.active ?? true }
}

/** As it is shown: credentials are write-only. */
export function shownConfig(config: NotificationConfig): NotificationConfig {
  const { authentication, ...rest } = config
  if (authentication === undefined) return rest
  return { ...rest, authentication: { schemes: (authentication as { schemes: unknown }).schemes } }
}
