/**
 * The configuration as its file says it, for operators to look at: without secrets, and with urls that have no user, password
 * or credentials in their query.
 */
import { stringify } from 'yaml'
import { isRecord } from '../adcp/json.js'
import { redacted, shownUrl } from '../adcp/redaction.js'
import type { ConfigFile } from './schema.js'

const MARK = '[secret]'

/** Members whose value is a secret, or proves one, at any depth. */
const SECRETS = new Set(['token', 'token_sha256', 'value', 'private_key', 'signing_key', 'jwks'])
/** Members whose own members all may be secrets: headers, whose names people need not keep to. */
const HOLDERS = new Set(['headers'])

function isSecret(name: string, parent: string): boolean {
  return SECRETS.has(name) || HOLDERS.has(parent) || (parent === 'storage' && name === 'key')
}

function shown(value: unknown, name: string, parent: string): unknown {
  if (isSecret(name, parent)) return MARK
  if (typeof value === 'string') return URL.canParse(value) ? shownUrl(value) : redacted(value)
  if (Array.isArray(value)) return value.map((each) => shown(each, '', name))
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, held]) => [key, shown(held, key, name)]))
}

/** Gives YAML. Variables of the environment are filled in, as the server uses them. */
export function writtenConfig(file: ConfigFile): string {
  return stringify(shown(file, '', ''), { lineWidth: 0 })
}
