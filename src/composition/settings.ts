/**
 * One configuration, translated into the options of each room: the accounts of callers, where each differs from the public
 * and what is sent upstream in its name; what upstreams, providers and the door are set to; what this agent says of itself; what
 * only a start takes up.
 */
import { createHmac } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { parse } from 'tldts'
import type { DeclaredAccounts } from '../activation/accounts.js'
import type { AccountReference } from '../adcp/caller.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Access } from '../briefs/standing.js'
import type { CallerKey } from '../config/callers.js'
import type { Config } from '../config/values.js'
import type { Feed } from '../feed/feed.js'
import { overlayName, type Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import type { AdmissionOptions } from '../server/door/admission.js'
import { algorithmOf } from '../signing/key.js'
import type { SharedNonces } from '../signing/verify.js'
import { createLots, StorageUnavailable } from '../store/database/storage-work.js'
import type { Nonces } from '../store/replicas/nonces.js'
import type { Store } from '../store/store.js'
import { inventoryOf, type SigningFacts } from '../tasks/get-adcp-capabilities.js'
import type { Auth } from '../upstreams/agent/agent.js'
import { PUBLIC, type Scope } from '../upstreams/mirror/scope-setting.js'
import type { UpstreamsConfig } from '../upstreams/upstreams.js'

/** What is sent to one upstream in an account's name. */
type Credential = { account?: AccountReference; auth?: Auth }

export type Account = {
  /** The feed's name of its layer, and the name of its scopes. */
  name: string
  /** Whose account it is. */
  caller: string
  /** By upstream: its canonical url. */
  upstreams: ReadonlyMap<string, Credential>
}

export type AccountMap = ReadonlyMap<string, Account>

function accountOf({ id, accounts, credentials }: CallerKey, account: string): Account {
  const references = accounts[account] ?? {}
  const upstreams = new Map<string, Credential>()
  for (const upstream of new Set([...Object.keys(references), ...Object.keys(credentials)])) {
    const reference = references[upstream]
    const auth = credentials[upstream]
    upstreams.set(upstream, { ...(reference && { account: reference }), ...(auth && { auth }) })
  }
  return { name: overlayName(id, account), caller: id, upstreams }
}

/** A question asks for an account once for each upstream: a configuration's accounts are put together once. */
const accountMaps = new WeakMap<Config, AccountMap>()

/** Every account of every caller, by name. */
export function accountsOf(config: Config): AccountMap {
  const made =
    accountMaps.get(config) ??
    new Map(
      config.callers.keys
        .flatMap((key) => Object.keys(key.accounts).map((account) => accountOf(key, account)))
        .map((account) => [account.name, account]),
    )
  accountMaps.set(config, made)
  return made
}

/** Whom an account stands for, in a word that gives nothing away; empty for one that is not configured. */
export function accountMark(secret: Uint8Array, account: Account | undefined): string {
  if (!account) return ''
  const { name, caller, upstreams } = account
  return credentialMark(secret, account, () => [name, caller, [...upstreams]])
}

/** The scopes that are read from each upstream in addition to the public one. */
function scopesOf(accounts: AccountMap): Map<string, Scope[]> {
  const scopes = new Map<string, Scope[]>()
  for (const { name, caller, upstreams } of accounts.values()) {
    for (const [upstream, credential] of upstreams) {
      scopes.set(upstream, [...(scopes.get(upstream) ?? []), { name, caller, ...credential }])
    }
  }
  return scopes
}

const marks = new WeakMap<object, string>()

/**
 * A keyed hash of credentials, which gives none of them away. It is made once for the object that they belong to, because requests
 * ask for it.
 */
function credentialMark(secret: Uint8Array, of: object, credentials: () => unknown = () => of): string {
  const known = marks.get(of)
  if (known !== undefined) return known
  const made = createHmac('sha256', secret).update(JSON.stringify(credentials())).digest('base64url')
  marks.set(of, made)
  return made
}

/**
 * What is sent to an upstream (canonical url) for a reader's account; for everybody else only our own credential. The scope names
 * the account and, in a keyed hash, whom it stands for there: another configuration may give its name to another one.
 */
export function accountAccess(
  config: Config,
  { account }: Reader,
  agentUrl: string,
  secret: Uint8Array,
): Access {
  const known = account === undefined ? undefined : accountsOf(config).get(account)
  const credential = known?.upstreams.get(agentUrl)
  if (!known || !credential) return { scope: PUBLIC }
  return { scope: `${known.name} ${credentialMark(secret, credential)}`, ...credential }
}

/** The caller's own credential for an upstream (canonical url), where the configuration has one. */
export function credentialOf({ callers }: Config, caller: string, agentUrl: string): Auth | undefined {
  const credentials = callers.keys.find(({ id }) => id === caller)?.credentials
  return credentials && Object.hasOwn(credentials, agentUrl) ? credentials[agentUrl] : undefined
}

/**
 * Accounts that callers declared themselves. What a caller told us about a configured account is not a declaration:
 * once the account is removed from the configuration, no caller has it. Those that are asked for meanwhile are read as one.
 */
export function declaredAccountsOf({ accounts }: Pick<Store, 'accounts'>): DeclaredAccounts {
  const read = createLots(accounts.getAll, { next: nextTurn })
  return async (caller, accountId) => {
    const stored = await read({ caller, accountId })
    return stored?.naturalKey !== undefined && stored.status === 'active'
  }
}

const PROVIDER_CONCURRENCY = 32

/** A public host name identifies us; a private one does not, so a reserved name replaces it (RFC 2606). */
function ownDomain({ publicUrl }: Config['listen']): string {
  const host = publicUrl === undefined ? '' : new URL(publicUrl).hostname
  return parse(host).isIcann ? host : 'tributary.invalid'
}

export function upstreamsSettings(config: Config): UpstreamsConfig {
  const { listen, registries, upstreams, defaults, limits, discovery } = config
  return {
    registries,
    statics: upstreams.map(({ id, protocol, auth, accountPrices, ...entry }) => ({
      ...(accountPrices === 'public' && { accountPrices }),
      ...entry,
      ...(id && { id }),
      ...(protocol && { protocol }),
      ...(auth && { auth }),
    })),
    policy: discovery,
    account: { brand: { domain: ownDomain(listen) }, operator: ownDomain(listen) },
    scopes: scopesOf(accountsOf(config)),
    defaults: { ...defaults, walkMs: limits.walkMs },
    limits,
  }
}

/** Whether the operator confirmed a provider's new pointer. */
export function isConfirmed({ authorization }: Config, domain: string, url: string): boolean {
  const confirmed = authorization.confirmedPointers.get(domain)
  return confirmed !== undefined && confirmed === canonicalUrl(url)
}

/** `config` gives the configuration that runs when it is asked. */
export function providerSettings(config: () => Config) {
  return {
    refreshMs: config().authorization.refreshMs,
    concurrency: PROVIDER_CONCURRENCY,
    limits() {
      const { providerDomainsPerUpstream, providerBytes } = config().limits
      return { domainsPerUpstream: providerDomainsPerUpstream, bytes: providerBytes }
    },
    confirmPointer: (domain: string, url: string) => isConfirmed(config(), domain, url),
  }
}

/** `among`: how many processes a caller's rate is divided among. */
export function admissionSettings(
  { callers }: Config,
  send: Send,
  { now }: Clock,
  among = () => 1,
): AdmissionOptions {
  const { jwt, rateLimit } = callers
  return {
    callers,
    rateLimit: { ...rateLimit, among },
    send,
    now,
    ...(jwt && { jwt: { ...jwt, send, now } }),
  }
}

/** Asks the storage that replicas share. While it cannot serve, whether a nonce was used is not known. */
export function nonceCheck({ take }: Nonces): SharedNonces {
  return async (key, nonce, until) => {
    try {
      return (await take(key, nonce, until)) ? 'fresh' : 'used'
    } catch (error) {
      if (error instanceof StorageUnavailable) return 'unknown'
      throw error
    }
  }
}

/**
 * The declarations about signatures that are true: keys are found only at an https url, and an empty key set does not
 * count.
 */
function signingFacts({ callers }: Config, { brandJsonUrl, signingKey }: Config['events']): SigningFacts {
  const signers = callers.keys.filter(({ signing }) => signing)
  const everybody = callers.anonymous === 'deny' && callers.keys.every(({ signing }) => signing?.required)
  return {
    ...(brandJsonUrl?.startsWith('https://') && { brandJsonUrl }),
    ...(signingKey && { algorithm: algorithmOf(signingKey) }),
    ...(signers.length > 0 && { requests: { required: everybody } }),
  }
}

/** Whether our webhooks can be verified: unverifiable ones are not sent, because anybody could forge them. */
export function tellsFeedEvents(config: Config, events: Config['events']): boolean {
  const { brandJsonUrl, algorithm } = signingFacts(config, events)
  return brandJsonUrl !== undefined && algorithm !== undefined
}

/** What get_adcp_capabilities says of this agent. `events`: as they were at the start, which is when they are taken up. */
export function factsOf(config: Config, events: Config['events'], feed: Pick<Feed, 'current'>) {
  const { callers } = config
  const snapshot = feed.current()
  return {
    ...(snapshot ? inventoryOf(snapshot) : { providerDomains: [], servesOwned: false }),
    accountOverlays: callers.keys.some(({ accounts }) => Object.keys(accounts).length > 0),
    signing: signingFacts(config, events),
    feedWebhooks: tellsFeedEvents(config, events),
  }
}

/** The settings that only a start takes up: these differ. */
export function settledAtStart(before: Config, next: Config): string[] {
  const pem = ({ events }: Config) => events.signingKey?.privateKey.export({ type: 'pkcs8', format: 'pem' })
  const settings: Record<string, (config: Config) => unknown> = {
    listen: ({ listen }) => listen,
    storage: ({ storage }) => storage,
    sandbox: ({ sandbox }) => sandbox,
    preview_releases: ({ previewReleases }) => previewReleases,
    test_controller: ({ testController }) => testController,
    'events.signing_key': (config) => [config.events.signingKey?.keyId, pem(config)],
    'events.public_url': ({ events }) => events.publicUrl,
    'events.brand_json_url': ({ events }) => events.brandJsonUrl,
    'authorization.refresh': ({ authorization }) => authorization.refreshMs,
  }
  return Object.keys(settings).filter(
    (name) => !isDeepStrictEqual(settings[name]?.(before), settings[name]?.(next)),
  )
}
