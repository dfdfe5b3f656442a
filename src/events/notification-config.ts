/**
 * An account's webhook subscriptions as they are written: checked, kept and shown (schema core/notification-config). Whether a
 * url wants our webhooks is asked elsewhere (events/subscriptions.ts).
 */
import { nearest } from '../adcp/issue-words.js'
import { isRecord } from '../adcp/json.js'
import { FEED_EVENTS } from '../adcp/signal.js'
import { createAddressPolicy } from '../net/addresses.js'
import type { EgressPolicy } from '../net/routes.js'
import type { Suspension } from '../store/records/accounts.js'

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
  ...FEED_EVENTS,
])

const SUBSCRIBER = /^[A-Za-z0-9_.:-]{1,64}$/
const SCHEMES: ReadonlySet<unknown> = new Set(['Bearer', 'HMAC-SHA256'])
const [MIN_CREDENTIALS, MAX_CREDENTIALS] = [32, 4_096]
const MOST_TOLD = 50 // of one account: a longer list would not be read
const MOST_TOLD_IN_ALL = 200 // of one request; from then on each account is told its first problem
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

type Found = Omit<NotificationProblem, 'path'> & { at: string }

function invalid(at: string, message: string, suggestion: string): Found {
  return { code: 'INVALID_REQUEST', at, message, suggestion }
}

function subscriberProblems(subscriber: unknown, seen: ReadonlySet<unknown>): Found[] {
  if (typeof subscriber !== 'string' || !SUBSCRIBER.test(subscriber)) {
    const message = 'subscriber_id must be 1 to 64 of A-Z, a-z, 0-9, _ . : -'
    return [invalid('subscriber_id', message, 'Name the subscription in such characters, "mirror" say.')]
  }
  if (!seen.has(subscriber)) return []
  const suggestion = 'Give each subscription of an account a subscriber_id of its own.'
  return [invalid('subscriber_id', 'This subscriber_id stands twice in the request.', suggestion)]
}

/** One after the other, because a request may name tens of thousands: who asks stops when it has enough. */
function* eventProblems(events: unknown): Generator<Found> {
  const otherwise = `Send some of ${[...ACCOUNT_EVENTS].join(', ')}.`
  if (!Array.isArray(events) || events.length === 0) {
    const message = 'event_types must name at least one event: without them nothing would be sent.'
    return yield invalid('event_types', message, otherwise)
  }
  for (const [at, event] of events.entries()) {
    if (ACCOUNT_EVENTS.has(event)) continue
    const [near] = typeof event === 'string' ? nearest(event, ACCOUNT_EVENTS) : []
    const suggestion = near ? `Did you mean "${near}"?` : otherwise
    yield invalid(`event_types[${at}]`, 'This event is not one of an account.', suggestion)
  }
  if (new Set(events).size < events.length) {
    yield invalid('event_types', 'An event stands twice.', 'Name each event once.')
  }
}

function authenticationProblems(value: unknown): Found[] {
  if (value === undefined) return []
  const { schemes, credentials, ...others } = isRecord(value) ? value : {}
  const [scheme] = Array.isArray(schemes) && schemes.length === 1 ? schemes : []
  const problem = (message: string) =>
    invalid(
      'authentication',
      message,
      'Send {schemes: ["HMAC-SHA256"], credentials}, or leave authentication out.',
    )
  const isLong =
    typeof credentials === 'string' &&
    credentials.length >= MIN_CREDENTIALS &&
    credentials.length <= MAX_CREDENTIALS
  return [
    ...(Object.keys(others).length === 0
      ? []
      : [problem('authentication has only schemes and credentials.')]),
    ...(SCHEMES.has(scheme) ? [] : [problem('schemes must hold one of Bearer and HMAC-SHA256.')]),
    ...(isLong
      ? []
      : [problem(`credentials must have ${MIN_CREDENTIALS} to ${MAX_CREDENTIALS} characters.`)]),
    ...(isLong && scheme === 'Bearer' && /[^\x21-\x7e]/.test(credentials)
      ? [problem('credentials of Bearer must be printable ASCII without spaces.')]
      : []),
  ]
}

function* memberProblems(config: NotificationConfig): Generator<Found> {
  for (const name of Object.keys(config)) {
    if (MEMBERS.has(name)) continue
    const [near] = nearest(name, MEMBERS)
    const suggestion = near ? `Did you mean "${near}"?` : `${[...MEMBERS].join(', ')} are known.`
    yield invalid('', 'A subscription has only the members of its schema.', suggestion)
  }
}

function activeProblems(active: unknown, delivers: boolean): Found[] {
  if (typeof active !== 'boolean') {
    return [invalid('active', 'active must be true or false.', 'Send active as true or false.')]
  }
  if (!active || delivers) return []
  const message = 'This agent has no key that its webhooks could be verified with: it delivers none.'
  const suggestion = 'Register the subscription with active false, or poll with if_wholesale_feed_version.'
  return [{ code: 'UNSUPPORTED_FEATURE', at: 'active', message, suggestion }]
}

function* problemsOf(
  config: NotificationConfig,
  seen: ReadonlySet<unknown>,
  { delivers, policy }: ConfigRules,
): Generator<Found> {
  const { subscriber_id: subscriber, url, event_types: events, authentication, active = true } = config
  yield* subscriberProblems(subscriber, seen)
  if (placeOf(url, policy) === undefined) {
    const message = 'url must be https, to a public host, without credentials.'
    yield invalid('url', message, 'Send a public https url; credentials go into authentication.')
  }
  yield* eventProblems(events)
  yield* authenticationProblems(authentication)
  yield* memberProblems(config)
  yield* activeProblems(active, delivers)
}

function* problemsOfAll(
  configs: readonly NotificationConfig[],
  rules: ConfigRules,
): Generator<NotificationProblem> {
  const seen = new Set<unknown>()
  for (const [index, config] of configs.entries()) {
    for (const { at, ...rest } of problemsOf(config, seen, rules)) {
      yield { ...rest, path: `notification_configs[${index}]${at && `.${at}`}` }
    }
    seen.add(config.subscriber_id)
  }
}

/**
 * Finds what is wrong with the subscriptions of one account after the other, of one request: everything, up to a bound. Whoever
 * sends a thousand accounts with sixteen empty subscriptions each would otherwise be sent a hundred times as much.
 */
export function createConfigCheck(rules: ConfigRules) {
  let told = 0
  return (configs: readonly NotificationConfig[]): readonly NotificationProblem[] => {
    const most = Math.max(1, Math.min(MOST_TOLD, MOST_TOLD_IN_ALL - told))
    const found: NotificationProblem[] = []
    for (const problem of problemsOfAll(configs, rules)) {
      found.push(problem)
      if (found.length === most) break
    }
    told += found.length
    return found
  }
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
