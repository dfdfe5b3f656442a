/** Rules on urls, domains and networks: values that can never match, or of which a part would silently be ignored. */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { canonicalUrl } from '../adcp/url.js'
import type { ConfigPath, Rule } from './problem.js'
import type { ConfigFile } from './schema.js'

/** A name as urls carry it: lower case, A-labels, no trailing dot; undefined when it is no host name. */
function hostName(name: string): string | undefined {
  if (!/^[^\s/?#@:]+$/.test(name) || !URL.canParse(`http://${name}/`)) return undefined
  return new URL(`http://${name}/`).hostname.replace(/\.$/, '')
}

function* domainRule(name: string, at: ConfigPath): Rule {
  const host = hostName(name)
  if (host === name) return
  const expected = host ? `${host}, as the name stands in urls` : 'a domain name'
  yield { at, expected, got: JSON.stringify(name) }
}

/** A url that paths are added to: what stands behind the path would be lost, or end up in the middle. */
export function* baseUrlRule(text: string | undefined, at: ConfigPath): Rule {
  if (text === undefined) return
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url) yield { at, expected: 'an http or https url' }
  else if (url.search || url.hash || url.username || url.password) {
    yield { at, expected: 'a url without credentials, query and fragment' }
  }
}

/** A url that is called as it stands: what is never sent of it would be lost in silence. */
export function* calledUrlRule(text: string | undefined, at: ConfigPath): Rule {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined
  if (url && (url.username || url.password || url.hash)) {
    yield { at, expected: 'a url without user, password and fragment, which are not sent' }
  }
}

function* originRule(text: string, at: ConfigPath): Rule {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.pathname !== '/' || url.search || url.hash || url.username || url.password) {
    yield { at, expected: 'an origin such as http://127.0.0.1:4900, without a path' }
  }
}

function* networkRules(networks: readonly string[] = [], at: ConfigPath): Rule {
  for (const [index, network] of networks.entries()) {
    if (!ipaddr.isValidCIDR(network)) {
      yield { at: [...at, index], expected: 'a network such as 127.0.0.0/8' }
    }
  }
}

export function* listenRules({ listen }: ConfigFile): Rule {
  yield* baseUrlRule(listen?.public_url, ['listen', 'public_url'])
  const { host } = listen ?? {}
  if (host !== undefined && isIP(host) === 0 && !/^[^\s/:?#@]+$/.test(host)) {
    yield { at: ['listen', 'host'], expected: 'a host name or an address, without a port' }
  }
  yield* networkRules(listen?.trusted_proxies, ['listen', 'trusted_proxies'])
}

export function* egressRules({ egress }: ConfigFile): Rule {
  yield* networkRules(egress?.allow_networks, ['egress', 'allow_networks'])
  yield* networkRules(egress?.webhook_networks, ['egress', 'webhook_networks'])
  for (const [domain, origin] of Object.entries(egress?.hosts ?? {})) {
    yield* domainRule(domain, ['egress', 'hosts', domain])
    yield* originRule(origin, ['egress', 'hosts', domain])
  }
}

export function* providerRules({ authorization }: ConfigFile): Rule {
  for (const [domain, { confirm_pointer: pointer }] of Object.entries(authorization?.providers ?? {})) {
    const at: ConfigPath = ['authorization', 'providers', domain]
    yield* domainRule(domain, at)
    if (pointer !== undefined && !canonicalUrl(pointer)?.startsWith('https:')) {
      yield { at: [...at, 'confirm_pointer'], expected: 'an https url' }
    }
  }
}
