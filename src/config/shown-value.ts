/**
 * A wrong value of the configuration, as its error may say it. What a setting may hold is shown where its schema says that it
 * holds no secret (`holds`), a url without all that may be one; of anything else only the kind is told. So nobody
 * has to guess from a value, or from the name of its setting, whether it is a secret.
 */
import { isRecord } from '../adcp/json.js'
import { shownUrl } from '../adcp/redaction.js'
import type { TSchema } from '../adcp/schema.js'
import { ConfigFile, type ConfigPath } from './schema.js'

const SHOWN_CHARACTERS = 60
/** Domains, ids, words and urls without user and query. In what else stands where a name belongs, a value was written. */
const NAME = /^[\p{L}\p{N}._:/-]*$/u

/** What the schema says of a setting; undefined for one that it does not have. */
function schemaAt(steps: ConfigPath): TSchema | undefined {
  return steps.reduce<TSchema | undefined>((schema, step) => {
    if (typeof step === 'number') return schema?.items
    const [ofAnyName] = Object.values<TSchema>(schema?.patternProperties ?? {})
    return schema?.properties?.[step] ?? ofAnyName
  }, ConfigFile)
}

const quoted = (text: string) => JSON.stringify(text).slice(0, SHOWN_CHARACTERS)

/** A name that somebody chose, of a member or as a value: of a url what is no credential. Undefined where it may hold one. */
function plainName(name: string): string | undefined {
  const shown = shownUrl(name)
  return NAME.test(shown) ? shown : undefined
}

export function shownName(name: string): string {
  const plain = plainName(name)
  return plain === undefined ? 'another name' : quoted(plain)
}

/** `callers.keys[0].id` from the steps to the value. */
export function pathText(steps: ConfigPath): string {
  const text = steps.reduce<string>((path, step) => {
    if (typeof step === 'number') return `${path}[${step}]`
    if (/^[\w-]+$/.test(step)) return `${path}${path && '.'}${step}`
    const plain = plainName(step)
    return `${path}[${plain === undefined ? '…' : JSON.stringify(plain)}]`
  }, '')
  return text || 'the file'
}

function urlWithoutSecrets(text: string): string | undefined {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return undefined
  const { protocol, username, password, host, pathname, search, hash } = new URL(text)
  const user = username || password ? '…@' : ''
  return quoted(`${protocol}//${user}${host}${pathname}${search && '?…'}${hash && '#…'}`)
}

function shownText(text: string, holds: unknown): string {
  if (text === '') return 'an empty text'
  if (holds === 'plain') return quoted(text)
  if (holds === 'name' && NAME.test(text)) return quoted(text)
  return (holds === 'url' && urlWithoutSecrets(text)) || 'another text'
}

/** `value` as it is written in the file, where a variable of the environment has no value yet. */
export function shownValue(steps: ConfigPath, value: unknown): string {
  const holds: unknown = schemaAt(steps)?.holds
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (isRecord(value)) return 'a mapping'
  if (typeof value === 'string') return shownText(value, holds)
  if (value === null || typeof value === 'boolean') return String(value)
  return holds === 'plain' ? String(value) : 'a number'
}
