/**
 * Removes secrets from everything that is stored, logged or shown: from urls, and from texts of strangers, because
 * their errors echo the credential that they refuse. A known secret is removed wherever it stands; unknown ones are
 * recognized by their form. From what is shown on a terminal, characters that it would obey are removed too.
 */
import { isRecord } from './json.js'

const MARK = '[secret]'
const MIN_SECRET = 8 // a shorter one may be an ordinary word in an honest text
const MAX_DEPTH = 8

// Strangers choose the texts, so the time must grow linearly with their length. A pattern that starts with a run of
// characters matches only at the start of the run, scans the run once, and never retries inside it.
const WORDS =
  'api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|pwd|credential|signature|session[_-]?id|jwt'
const SECRET_WORD = new RegExp(WORDS, 'i')
const QUERY_WORD = /^(?:key|sig|auth|code)$/i
const VALUE = String.raw`(?=\S{0,15}\d|\S{16})` // has a digit near its beginning, or is long: an ordinary word is neither
const SCHEME = new RegExp(
  String.raw`\b(bearer|basic|digest|apikey)(\s+|%20|\+)["']?${VALUE}[\w.~+/=-]{6,}`,
  'gi',
)
const ASSIGNED = new RegExp(
  String.raw`(?<![\w-])((?=[\w-]*?(?:${WORDS}|\b(?:authorization|x-adcp-auth)(?![\w-])))[\w-]+["']?\s*[:=]\s*["']?)` +
    String.raw`${VALUE}[^\s"'&,;)}\]]{4,}`,
  'gi',
)
const USERINFO = /:\/\/[^\s/?#@"']*@/g
const TOKENS = [
  /(?<![\w-])(?=[\w-]*?\beyJ[\w-]{8})[\w-]+\.[\w-]{8,}(?:\.[\w-]*)?/g, // JSON Web Tokens
  /\b(?:sk|pk|rk|xox[abprs]|gh[pousr]|glpat)[_-][\w-]{12,}/gi, // well-known prefixes
  /\bAKIA[0-9A-Z]{16}\b/g,
]

function isSecretName(name: string): boolean {
  return /^[\w-]*$/.test(name) && SECRET_WORD.test(name)
}

function isSecretInQuery(name: string): boolean {
  return isSecretName(name) || QUERY_WORD.test(name)
}

/** The url without user, fragment and the credentials in its query; text that is no url is treated as text. */
export function shownUrl(url: string): string {
  if (!URL.canParse(url)) return redacted(url)
  const [place = '', query] = (url.split('#')[0] as string).split(/\?(.*)/s)
  const bare = place.replace(USERINFO, '://')
  const kept = (query?.split('&') ?? []).filter((pair) => {
    const name = pair.split('=')[0] as string
    return !isSecretInQuery(decoded(name)) && redacted(pair) === pair
  })
  return kept.length > 0 ? `${bare}?${kept.join('&')}` : bare
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The spellings in which a secret may come back: plain, in a url, in JSON, in Base64 alone or behind `name:`. */
export function spellings(secret: string): string[] {
  const encoded = Buffer.from(secret).toString('base64').replace(/=+$/, '')
  return [...new Set([secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), encoded])]
}

/** The parts of a url that are credentials: user, password, and the secret values in its query. */
export function secretsInUrl(url: string): string[] {
  if (!URL.canParse(url)) return []
  const { username, password, searchParams } = new URL(url)
  const values = [...searchParams].flatMap(([name, value]) => (isSecretInQuery(name) ? [value] : []))
  return [username, password, ...values].map(decoded).filter((secret) => secret.length >= MIN_SECRET)
}

/** The texts that are long enough to be searched for and removed. */
export function searchable(secrets: readonly string[]): string[] {
  return [...new Set(secrets.filter(({ length }) => length >= MIN_SECRET))]
}

/** The text without the given secrets and without anything that looks like a secret. */
export function redacted(text: string, secrets: readonly string[] = []): string {
  let clean = text
  for (const secret of searchable(secrets)) {
    for (const spelling of spellings(secret)) clean = clean.replaceAll(spelling, MARK)
  }
  clean = clean.replace(USERINFO, `://${MARK}@`).replace(SCHEME, `$1 ${MARK}`).replace(ASSIGNED, `$1${MARK}`)
  for (const token of TOKENS) clean = clean.replace(token, MARK)
  return clean
}

/** A parsed JSON value with every text redacted and the values of secret names removed; a very deep value is cut. */
export function redactedValue(value: unknown, secrets: readonly string[] = [], depth = 0): unknown {
  if (typeof value === 'string') return redacted(value, secrets)
  if (depth === MAX_DEPTH) return typeof value === 'object' ? null : value
  if (Array.isArray(value)) return value.map((each) => redactedValue(each, secrets, depth + 1))
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, held]) => [
      redacted(name, secrets),
      isSecretName(name) && typeof held === 'string' ? MARK : redactedValue(held, secrets, depth + 1),
    ]),
  )
}

// Control characters, the eight-bit ones too, and those that turn the direction of a text or begin a line.
// biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are looked for
const STEERING = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/**
 * The parsed JSON value with each character that controls a terminal replaced by a space, in all of its texts. No text
 * of a stranger then moves the cursor, fills the clipboard or looks like a line of ours.
 */
export function forTerminal<T>(value: T): T {
  if (typeof value === 'string') return value.replace(STEERING, ' ') as T
  if (Array.isArray(value)) return value.map(forTerminal) as T
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, held]) => [name.replace(STEERING, ' '), forTerminal(held)]),
  ) as T
}
