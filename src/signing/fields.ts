/**
 * Reads the header fields of a signature (RFC 8941 dictionaries) more strictly than RFC 8941. A repeated member or
 * parameter is an error, where RFC 8941 takes the last one: two readers must not read one signature in two ways. Byte
 * sequences may also be base64url, because the protocol's signatures are.
 */
import { type InnerList, parseList } from 'structured-headers'
import { LABEL } from './profile.js'

/** A header as Node gives it: repeated headers arrive joined or as a list. */
export type HeaderValue = string | readonly string[] | undefined

export type SignatureInput = {
  components: readonly string[]
  params: ReadonlyMap<string, string | number>
  /** The text as it was sent: it is the last line of what is signed. */
  raw: string
}

const MEMBER = /^\s*([a-z*][a-z0-9_.*-]*)=(.+?)\s*$/s
const QUOTED = /"(?:[^"\\]|\\.)*"/g
const STANDARD = /^[A-Za-z0-9+/]+={0,2}$/
const URL_SAFE = /^[A-Za-z0-9_-]+$/
const NUMBERS = new Set(['created', 'expires'])

/** The text of one header; repeated headers form one list (RFC 9110, section 5.3). */
export function fieldText(value: HeaderValue): string | undefined {
  return value === undefined || typeof value === 'string' ? value : value.join(', ')
}

/**
 * The members of a dictionary, each as it was sent; undefined when the text is not a dictionary or repeats a member.
 */
function members(text: string): Map<string, string> | undefined {
  const blank = text.replace(QUOTED, (quoted) => '"'.repeat(quoted.length))
  const found = new Map<string, string>()
  let from = 0
  for (const part of blank.split(',')) {
    const [, name, value] = MEMBER.exec(text.slice(from, from + part.length)) ?? []
    from += part.length + 1
    if (name === undefined || value === undefined || found.has(name)) return undefined
    found.set(name, value)
  }
  return found
}

/** Bytes between colons, in one of the two alphabets; undefined for a mixture of both. */
function bytesOf(item: string | undefined): Buffer | undefined {
  const [, token = ''] = /^:([^:]*):$/.exec(item ?? '') ?? []
  if (STANDARD.test(token)) return Buffer.from(token, 'base64')
  return URL_SAFE.test(token) ? Buffer.from(token, 'base64url') : undefined
}

/** The bytes of our label in `Signature`. */
export function readSignature(header: string): Buffer | undefined {
  return bytesOf(members(header)?.get(LABEL))
}

/** The digests of `Content-Digest` (RFC 9530) by their algorithms. */
export function readDigests(header: string): ReadonlyMap<string, Buffer> | undefined {
  const found = new Map<string, Buffer>()
  for (const [algorithm, item] of members(header) ?? []) {
    const bytes = bytesOf(item)
    if (!bytes) return undefined
    found.set(algorithm, bytes)
  }
  return found.size > 0 ? found : undefined
}

function innerList(raw: string): InnerList | undefined {
  try {
    const [list] = parseList(raw)
    return list && Array.isArray(list[0]) ? (list as InnerList) : undefined
  } catch {
    return undefined // a malformed list is no list
  }
}

/** The parameters: texts, and whole numbers for times. Undefined when one has another type or is repeated. */
function paramsOf(
  raw: string,
  given: ReadonlyMap<string, unknown>,
): Map<string, string | number> | undefined {
  const separators =
    raw
      .replace(QUOTED, '')
      .replace(/^\([^)]*\)/, '')
      .split(';').length - 1
  if (separators !== given.size) return undefined
  const params = new Map<string, string | number>()
  for (const [name, value] of given) {
    const isRight = NUMBERS.has(name) ? Number.isSafeInteger(value) : typeof value === 'string'
    if (!isRight) return undefined
    params.set(name, value as string | number)
  }
  return params
}

/** The member of `Signature-Input` with our label; undefined when it is missing or malformed. */
export function readSignatureInput(header: string): SignatureInput | undefined {
  const raw = members(header)?.get(LABEL)
  const list = raw === undefined ? undefined : innerList(raw)
  if (raw === undefined || !list) return undefined
  const [items, given] = list
  const components = items.map(([name, extras]) => (extras.size === 0 ? name : undefined))
  if (components.some((name) => typeof name !== 'string')) return undefined
  if (new Set(components).size !== components.length) return undefined
  const params = paramsOf(raw, given)
  return params && { components: components as string[], params, raw }
}
