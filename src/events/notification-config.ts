/**
 * An account's webhook subscriptions as they are written: checked, kept and shown (schema core/notification-config). Whether a
 * place is its caller's to name is proved elsewhere (events/challenge.ts).
 */
import { nearest } from '../adcp/nearest.js'
import { createAddressPolicy } from '../net/address.js'
import type { EgressPolicy } from '../net/egress.js'
import type { Suspension } from '../store/records/subscriptions.js'

export type NotificationConfig = Readonly<Record<string, unknown>>

/** What is wrong with an account's subscriptions; `path` leads from the account to the member. */
export type NotificationProblem = {
  code: 'INVALID_REQUEST' | 'VALIDATION_ERROR' | 'UNSUPPORTED_FEATURE'
  path: string
  message: string
  suggestion: string
}

export type ConfigRules = {
  /** Whether anything is delivered at all. */
  delivers: boolean
  /** Where webhooks may go. */
  policy: Pick<EgressPolicy, 'allowHttp' | 'allowNetworks'>
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
const [MIN_CREDENTIALS, MAX_CREDENTIALS] = [32, 4_096]
const LOCAL_NAME = /(^|\.)(localhost|local|internal|home\.arpa)$/
const MEMBERS: ReadonlySet<string> = new Set([
  'subscriber_id',
  'url',
  'event_types',
  'authentication',
  'active',
  'ext',
])

/** The normalised url; undefined when it is not https to a public name or address, or to a network that is open to webhooks. */
function placeOf(text: unknown, policy: ConfigRules['policy']): string | undefined {
  if (typeof text !== 'string' || text.length > 2_048 || !URL.canParse(text)) return undefined
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined
  if (url.username !== '' || url.password !== '') return undefined
  const host = url.hostname.replace(/\.$/, '')
  const literal = host.startsWith('[') ? host.slice(1, -1) : host
  const isAddress = host.startsWith('[') || /^[\d.]+$/.test(host)
  if (isAddress) {
    if (!createAddressPolicy(policy).permits(literal, url.protocol)) return undefined
  } else if (url.protocol === 'http:' || !host.includes('.') || LOCAL_NAME.test(host)) {
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
  if (
    typeof credentials !== 'string' ||
    credentials.length < MIN_CREDENTIALS ||
    credentials.length > MAX_CREDENTIALS
  ) {
    return `credentials must have ${MIN_CREDENTIALS} to ${MAX_CREDENTIALS} characters.`
  }
  return schemes[0] === 'Bearer' && /[^\x21-\x7e]/.test(credentials)
    ? 'credentials of Bearer must be printable ASCII without spaces.'
    : undefined
}

function problemOf(
  config: NotificationConfig,
  seen: ReadonlySet<unknown>,
  { delivers, policy }: ConfigRules,
): (Omit<NotificationProblem, 'path'> & { at: string }) | undefined {
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
  if (placeOf(url, policy) === undefined) {
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
  if (!active || delivers) return undefined
  const message = 'This agent has no key that its webhooks could be verified with: it delivers none.'
  const suggestion = 'Register the subscription with active false, or poll with if_wholesale_feed_version.'
  return { code: 'UNSUPPORTED_FEATURE', at: 'active', message, suggestion }
}

/** The first thing wrong with an account's subscriptions. */
export function configProblem(
  configs: readonly NotificationConfig[],
  rules: ConfigRules,
): NotificationProblem | undefined {
  const seen = new Set<unknown>()
  for (const [index, config] of configs.entries()) {
    const problem = problemOf(config, seen, rules)
    if (problem) {
      const { at, ...rest } = problem
      return { ...rest, path: `notification_configs[${index}]${at && `.${at}`}` }
    }
    seen.add(config.subscriber_id)
  }
  return undefined
}

/** As it is kept: the host normalised, the default of `active` spelled out. The config has no problem. */
export function keptConfig(config: NotificationConfig, { policy }: ConfigRules): NotificationConfig {
  return { ...config, url: placeOf(config.url, policy), active: config.active ?? true }
}

/** As it is shown: credentials are write-only, and one that is told nothing any more is not active (docs/events.md). */
export function shownConfig(config: NotificationConfig, suspended?: Suspension): NotificationConfig {
  const { authentication, ...rest } = config
  return {
    ...rest,
    ...(authentication !== undefined && {
      authentication: { schemes: (authentication as { schemes: unknown }).schemes },
    }),
    ...(suspended && {
      active: false,
      ext: {
        ...(config.ext as object | undefined),
        tributary: {
          suspended: { reason: suspended.reason, since: new Date(suspended.at).toISOString() },
        },
      },
    }),
  }
}
