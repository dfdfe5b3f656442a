/** One configuration, translated into the options of each room. */
import { isDeepStrictEqual } from 'node:util'
import { parse } from 'tldts'
import { canonicalUrl } from '../../adcp/url.js'
import type { Config } from '../../config/values.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import type { AdmissionOptions } from '../../server/door/admission.js'
import type { SharedNonces } from '../../signing/replay.js'
import { algorithmOf } from '../../signing/sign.js'
import { StorageUnavailable } from '../../store/database/unavailable.js'
import type { Nonces } from '../../store/nonces.js'
import type { SigningFacts } from '../../tasks/get-adcp-capabilities.js'
import type { UpstreamsConfig } from '../../upstreams/upstreams.js'
import { accountsOf, scopesOf } from './account-settings.js'

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
export function signingFacts(
  { callers }: Config,
  { brandJsonUrl, signingKey }: Config['events'],
): SigningFacts {
  const signers = callers.keys.filter(({ signing }) => signing)
  const everybody = callers.anonymous === 'deny' && callers.keys.every(({ signing }) => signing?.required)
  return {
    ...(brandJsonUrl?.startsWith('https://') && { brandJsonUrl }),
    ...(signingKey && { algorithm: algorithmOf(signingKey) }),
    ...(signers.length > 0 && { requests: { required: everybody } }),
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
