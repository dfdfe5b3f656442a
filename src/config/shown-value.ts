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
/** One word. A text of several may be that of further lines, where a colon or a quote lacks. */
const PLAIN = /^[^\s"'`:]*$/

/** What a schema says of a setting by the name that the protocol or we gave it. */
function ownSetting(schema: TSchema | undefined, name: string): TSchema | undefined {
  const spellings: TSchema[] = [schema ?? {}, ...(schema?.anyOf ?? [])]
  const owner = spellings.find(({ properties }) => Object.hasOwn(properties ?? {}, name))
  return owner?.properties[name]
}

/** What the schema says of the setting one step further; undefined for one that it does not have. */
function further(schema: TSchema | undefined, step: string | number): TSchema | undefined {
  if (typeof step === 'number') return schema?.items
  const [ofAnyName] = Object.values<TSchema>(schema?.patternProperties ?? {})
  return ownSetting(schema, step) ?? ofAnyName
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

function stepText(schema: TSchema | undefined, step: string | number): string {
  if (typeof step === 'number') return `[${step}]`
  const isSetting = ownSetting(schema, step) !== undefined
  const shown = isSetting ? step : schema?.keys === 'name' ? plainName(step) : undefined
  if (shown === undefined) return '[…]'
  return isSetting || /^[\w-]+$/.test(shown) ? `.${shown}` : `[${JSON.stringify(shown)}]`
}

/**
 * `callers.keys[0].id` from the steps to the value. A name that the schema does not have is shown where the schema says that names
 * stand there (`keys`). Elsewhere it may be a value: without its space, `token: x` is one long name.
 */
export function pathText(steps: ConfigPath): string {
  let text = ''
  let schema: TSchema | undefined = ConfigFile
  for (const step of steps) {
    text += stepText(schema, step)
    schema = further(schema, step)
  }
  return text.replace(/^\./, '') || 'the file'
}

function urlWithoutSecrets(text: string): string | undefined {
  if (!/^https?:\/\/\S*$/.test(text) || !URL.canParse(text)) return undefined
  const { protocol, username, password, host, pathname, search, hash } = new URL(text)
  const user = username || password ? '…@' : ''
  return quoted(`${protocol}//${user}${host}${pathname}${search && '?…'}${hash && '#…'}`)
}

function shownText(text: string, holds: unknown): string {
  if (text === '') return 'an empty text'
  if (holds === 'plain' && PLAIN.test(text)) return quoted(text)
  if (holds === 'name' && NAME.test(text)) return quoted(text)
  return (holds === 'url' && urlWithoutSecrets(text)) || 'another text'
}

/** `value` as it is written in the file, where a variable of the environment has no value yet. */
export function shownValue(steps: ConfigPath, value: unknown): string {
  const holds: unknown = steps.reduce(further, ConfigFile as TSchema | undefined)?.holds
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (isRecord(value)) return 'a mapping'
  if (typeof value === 'string') return shownText(value, holds)
  if (value === null || typeof value === 'boolean') return String(value)
  return holds === 'plain' ? String(value) : 'a number'
}
