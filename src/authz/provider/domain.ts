/**
 * Which domains can be providers, and which urls speak for them: a registrable name, its well-known file, and the
 * hosts that redirects may lead to (docs/protocol.md#provider-files).
 */
import { domainToASCII } from 'node:url'
import { parse } from 'tldts'

const LABELS = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/
const NOT_IN_A_NAME = /[\s/?#\\%@:[\]]/ // the platform's conversion drops or decodes these characters and does not refuse them
const PRIVATE = { allowPrivateDomains: true } // two tenants of one hosting platform are not one provider

/** The domain in lower-case A-labels; undefined for addresses, single labels, public suffixes and malformed names. */
export function providerDomain(text: string): string | undefined {
  if (NOT_IN_A_NAME.test(text)) return undefined
  const domain = domainToASCII(text.endsWith('.') ? text.slice(0, -1) : text)
  if (domain.length > 253 || !LABELS.test(domain)) return undefined
  const { isIp, domain: registrable } = parse(domain, PRIVATE)
  return isIp || !registrable ? undefined : domain
}

/** The registrable domain: all subdomains of it belong to one owner. */
export function registrableDomain(domain: string): string {
  return parse(domain, PRIVATE).domain ?? domain
}

/** The url at which the domain publishes its file. */
export function wellKnownUrl(domain: string): string {
  return `https://${domain}/.well-known/adagents.json`
}

/** Whether the url is https and its host lies in the registrable domain of `domain`. */
export function speaksFor(url: string, domain: string): boolean {
  if (!url.startsWith('https://')) return false
  const registrable = parse(url, PRIVATE).domain
  return registrable !== null && registrable === parse(domain, PRIVATE).domain
}
