/**
 * Secrets in stored JSON: activation keys and webhook credentials. With `storage.key` they are encrypted (AES-256-GCM,
 * a fresh nonce each). Without it they stay in this process's memory and the storage holds a reference, so that after a
 * restart, or on another replica, the rest can be read without them.
 */
import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createRecent, type Recent } from '../../process/memory.js'

/** A whole text that holds secrets. It may be long, and such a text can be asked for again when it is lost. */
const TEXT = 'sealed'
/** Members that hold a secret, at any depth. */
const SECRETS: ReadonlySet<string> = new Set(['activation_key', 'credentials', 'token', TEXT])
const MARK = '$sealed'
/** The same members as JSON writes them: a text without any of them holds no secret, and most have none. */
const WRITTEN = [...SECRETS].map((name) => `"${name}":`)
const NONCE_BYTES = 12
const TAG_BYTES = 16
const ID_LENGTH = 8
const MOST_REMEMBERED = 200_000
const MOST_TEXT = 64 * 1_024 * 1_024 // characters

type Key = { id: string; bytes: Uint8Array }

export type Seal = {
  /** JSON without secrets in clear text. */
  write(value: unknown): string
  /**
   * The JSON with its secrets; a secret that cannot be decrypted is left out. A secret stored in clear text is returned
   * as it is.
   */
  read(text: string): unknown
  /** Bytes that may hold secrets, encrypted; undefined without a key. */
  hide(clear: Uint8Array): Uint8Array | undefined
  /** What was hidden; undefined when it cannot be decrypted. */
  show(hidden: Uint8Array): Uint8Array | undefined
}

/** Any text of enough entropy can be a key: it is stretched to the cipher's length, and a hash names it. */
function derived(text: string): Key {
  const bytes = new Uint8Array(hkdfSync('sha256', text, '', 'tributary storage', 32))
  return { id: hash('sha256', bytes).slice(0, ID_LENGTH), bytes }
}

function locked({ bytes }: Key, clear: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', bytes, nonce)
  const content = [cipher.update(clear), cipher.final()]
  return Buffer.concat([nonce, cipher.getAuthTag(), ...content])
}

function unlocked(key: Key, bytes: Uint8Array): Buffer | undefined {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key.bytes, bytes.subarray(0, NONCE_BYTES))
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
    const content = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES))
    return Buffer.concat([content, decipher.final()])
  } catch {
    return undefined // changed on disk, so nothing in it can be trusted
  }
}

function encrypted(key: Key, clear: string): string {
  return `${key.id}.${locked(key, Buffer.from(clear)).toString('base64url')}`
}

function decrypted(keys: readonly Key[], sealed: string): string | undefined {
  const key = keys.find(({ id }) => sealed.startsWith(`${id}.`))
  return key && unlocked(key, Buffer.from(sealed.slice(ID_LENGTH + 1), 'base64url'))?.toString()
}

function markOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const mark = (value as Record<string, unknown>)[MARK]
  return typeof mark === 'string' ? mark : undefined
}

/** `keys`: the first encrypts and all decrypt, so a key is replaced by putting the new one first. */
export function createSeal(keys: readonly string[]): Seal {
  const derivedKeys = keys.map(derived)
  const [first] = derivedKeys
  const remembered = createRecent<string>(MOST_REMEMBERED)
  const texts = new LRUCache<string, string>({ maxSize: MOST_TEXT, sizeCalculation: ({ length }) => length })

  function hide(clear: string, among: Recent<string>): string {
    if (first) return encrypted(first, clear)
    const name = randomBytes(NONCE_BYTES).toString('base64url') // random, because a hash would let somebody guess the secret
    among.set(name, clear)
    return name
  }

  function withoutSecret(name: string, member: unknown): unknown {
    if (!SECRETS.has(name) || member === undefined || markOf(member) !== undefined) return member
    return { [MARK]: hide(JSON.stringify(member), name === TEXT ? texts : remembered) }
  }

  function withSecret(name: string, member: unknown): unknown {
    const mark = SECRETS.has(name) ? markOf(member) : undefined
    if (mark === undefined) return member
    const known = name === TEXT ? texts : remembered
    const clear = first ? decrypted(derivedKeys, mark) : known.get(mark)
    return clear === undefined ? undefined : (JSON.parse(clear) as unknown)
  }

  return {
    write(value) {
      const json = JSON.stringify(value)
      return WRITTEN.some((name) => json.includes(name)) ? JSON.stringify(value, withoutSecret) : json
    },
    read: (text) => JSON.parse(text, text.includes(MARK) ? withSecret : undefined) as unknown,
    hide: (clear) => first && Buffer.concat([Buffer.from(first.id), locked(first, clear)]),
    show(hidden) {
      const id = Buffer.from(hidden.subarray(0, ID_LENGTH)).toString()
      const key = derivedKeys.find((one) => one.id === id)
      return key && unlocked(key, hidden.subarray(ID_LENGTH))
    },
  }
}
