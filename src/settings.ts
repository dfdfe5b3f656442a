/** One configuration in the words of each room. */
import type { Auth, Config } from './config-values.js'
import type { OverlayAccount, OverlayCredential } from './overlays.js'
import { overlayName } from './server/callers.js'
import type { UpstreamsConfig } from './upstreams/upstreams.js'

export function upstreamsSettings({ registries, upstreams, defaults, discovery }: Config): UpstreamsConfig {
  return {
    registries,
    statics: upstreams.map(({ id, protocol, auth, ...entry }) => ({
      ...entry,
      ...(id && { id }),
      ...(protocol && { protocol }),
      ...(auth && { auth }),
    })),
    policy: discovery,
    defaults,
  }
}

/** Every account of every caller, with what is sent upstream in its name. */
export function overlayAccounts({ callers }: Config): OverlayAccount[] {
  return callers.keys.flatMap(({ id, accounts, credentials }) =>
    Object.entries(accounts).map(([account, references]) => {
      const upstreams = new Map<string, OverlayCredential>()
      for (const upstream of new Set([...Object.keys(references), ...Object.keys(credentials)])) {
        const reference = references[upstream]
        const auth = credentials[upstream]
        upstreams.set(upstream, { ...(reference && { account: reference }), ...(auth && { auth }) })
      }
      return { name: overlayName(id, account), upstreams }
    }),
  )
}

/** The caller's own credential for an upstream, where the configuration has one. */
export function credentialOf({ callers }: Config, caller: string, upstream: string): Auth | undefined {
  const credentials = callers.keys.find(({ id }) => id === caller)?.credentials
  return credentials && Object.hasOwn(credentials, upstream) ? credentials[upstream] : undefined
}
