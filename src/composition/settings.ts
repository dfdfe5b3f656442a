/** One configuration in the words of each room. */
import { isDeepStrictEqual } from 'node:util'
import { parse } from 'tldts'
import { canonicalUrl } from '../adcp/url.js'
import type { Auth } from '../config/auth.js'
import type { Config } from '../config/values.js'
import type { Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import type { AdmissionOptions } from '../server/door/admission.js'
import { overlayName } from '../server/door/callers.js'
import type { UpstreamsConfig } from '../upstreams/upstreams.js'
import type { OverlayAccount, OverlayCredential } from './overlays.js'

const PROVIDER_CONCURRENCY = 16

/** A host that anybody can look up is who we are; a private one is nobody (RFC 2606). */
function ownDomain({ publicUrl }: Config['listen']): string {
  const host = publicUrl === undefined ? '' : new URL(publicUrl).hostname
  return parse(host).isIcann ? host : 'tributary.invalid'
}

export function upstreamsSettings({
  listen,
  registries,
  upstreams,
  defaults,
  limits,
  discovery,
}: Config): UpstreamsConfig {
  return {
    registries,
    statics: upstreams.map(({ id, protocol, auth, ...entry }) => ({
      ...entry,
      ...(id && { id }),
      ...(protocol && { protocol }),
      ...(auth && { auth }),
    })),
    policy: discovery,
    account: { brand: { domain: ownDomain(listen) }, operator: ownDomain(listen) },
    defaults: { ...defaults, walkMs: limits.walkMs },
  }
}

/** Whether the operator knows that a provider's new pointer is right. */
export function isConfirmed({ authorization }: Config, domain: string, url: string): boolean {
  const confirmed = authorization.confirmedPointers.get(domain)
  return confirmed !== undefined && confirmed === canonicalUrl(url)
}

/** `config` gives the configuration that runs when it is asked. */
export function providerSettings(config: () => Config) {
  return {
    refreshMs: config().authorization.refreshMs,
    concurrency: PROVIDER_CONCURRENCY,
    confirmPointer: (domain: string, url: string) => isConfirmed(config(), domain, url),
  }
}

export function admissionSettings({ callers }: Config, send: Send, { now }: Clock): AdmissionOptions {
  const { jwt, rateLimit } = callers
  return { callers, rateLimit, ...(jwt && { jwt: { ...jwt, send, now } }) }
}

function accountsIn({ callers }: Config): OverlayAccount[] {
  return callers.keys.flatMap(({ id, accounts, credentials }) =>
    Object.entries(accounts).map(([account, references]) => {
      const upstreams = new Map<string, OverlayCredential>()
      for (const upstream of new Set([...Object.keys(references), ...Object.keys(credentials)])) {
        const reference = references[upstream]
        const auth = credentials[upstream]
        upstreams.set(upstream, { ...(reference && { account: reference }), ...(auth && { auth }) })
      }
      return { name: overlayName(id, account), caller: id, upstreams }
    }),
  )
}

/** A question asks for an account once for each upstream: a configuration's accounts are put together once. */
const accountsOf = new WeakMap<Config, ReadonlyMap<string, OverlayAccount>>()

/** Every account of every caller, by name, with what is sent upstream in its name. */
export function overlayAccounts(config: Config): ReadonlyMap<string, OverlayAccount> {
  const known = accountsOf.get(config) ?? new Map(accountsIn(config).map((one) => [one.name, one]))
  accountsOf.set(config, known)
  return known
}

/** What is sent to an upstream in the name of a reader's account; nothing but our own for everybody else. */
export function accessOf(config: Config, { account }: Reader, agentUrl: string) {
  if (account === undefined) return undefined
  const credential = overlayAccounts(config).get(account)?.upstreams.get(agentUrl)
  return credential && { scope: account, ...credential }
}

/** The settings that only a start takes up: these differ. */
export function settledAtStart(before: Config, next: Config): string[] {
  const pem = ({ events }: Config) => events.signingKey?.privateKey.export({ type: 'pkcs8', format: 'pem' })
  const settings: Record<string, (config: Config) => unknown> = {
    listen: ({ listen }) => listen,
    storage: ({ storage }) => storage,
    sandbox: ({ sandbox }) => sandbox,
    'events.signing_key': (config) => [config.events.signingKey?.keyId, pem(config)],
    'events.public_url': ({ events }) => events.publicUrl,
    'events.brand_json_url': ({ events }) => events.brandJsonUrl,
    'authorization.refresh': ({ authorization }) => authorization.refreshMs,
  }
  return Object.keys(settings).filter(
    (name) => !isDeepStrictEqual(settings[name]?.(before), settings[name]?.(next)),
  )
}

/** The caller's own credential for an upstream, where the configuration has one. */
export function credentialOf({ callers }: Config, caller: string, agentUrl: string): Auth | undefined {
  const credentials = callers.keys.find(({ id }) => id === caller)?.credentials
  return credentials && Object.hasOwn(credentials, agentUrl) ? credentials[agentUrl] : undefined
}
