/** What is wrong with a configuration: where in the file, what was expected, what came. Never a secret's value. */
import type { ErrorObject } from 'ajv'
import { nearest } from '../adcp/issue-words.js'

export type ConfigProblem = { path: string; line?: number; expected: string; got: string }

const SECRET = /token|\bauth\b|headers|credentials|storage(?!\.retention)|private_key|signing_key/
const SHOWN_CHARACTERS = 60

export class ConfigError extends Error {
  constructor(
    readonly file: string,
    readonly problems: readonly ConfigProblem[],
    /** Names the content of the file as it stands; absent when it cannot be read. */
    readonly revision?: string,
  ) {
    const inOrder = [...problems].sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
    super(`${file} cannot be used:\n${inOrder.map((problem) => `  ${describe(problem)}`).join('\n')}`)
    this.name = 'ConfigError'
  }
}

/** `callers.keys[0].id` from the steps to the value. */
export function pathText(steps: readonly (string | number)[]): string {
  const text = steps.reduce<string>(
    (path, step) =>
      typeof step === 'number'
        ? `${path}[${step}]`
        : /^[\w-]+$/.test(step)
          ? `${path}${path && '.'}${step}`
          : `${path}[${JSON.stringify(step)}]`,
    '',
  )
  return text || 'the file'
}

/** A url without its credentials and its query: both are places for keys. */
function withoutSecrets(text: string): string {
  return text.replace(/^(https?:\/\/)[^/@\s]*@/, '$1…@').replace(/\?.*$/s, '?…')
}

/** The value as it may be shown: what could be a secret is only named by its type. */
export function shownValue(path: string, value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'string' && SECRET.test(path)) return value === '' ? 'an empty text' : 'another text'
  if (typeof value === 'string') return JSON.stringify(withoutSecrets(value)).slice(0, SHOWN_CHARACTERS)
  return JSON.stringify(value).slice(0, SHOWN_CHARACTERS)
}

const NO_SUCH = 'no such key'

/** The settings of the same place that were probably meant. */
function meant({ params, parentSchema }: ErrorObject): string {
  const near = nearest(String(params.additionalProperty), Object.keys(parentSchema?.properties ?? {}))
  return near.length > 0 ? `; did you mean ${near.join(' or ')}?` : ''
}

type Described = { description?: string; type?: string }

const TYPES: Record<string, string> = {
  object: 'a mapping',
  array: 'a list',
  string: 'a text',
  number: 'a number',
}

/** The words for one violated rule of the schema. */
export function expectation(error: ErrorObject): string {
  const schema = error.parentSchema as Described | undefined
  if (error.keyword === 'additionalProperties') return NO_SUCH + meant(error)
  if (error.keyword === 'required') return 'a value'
  return schema?.description ?? TYPES[schema?.type ?? ''] ?? error.message ?? 'another value'
}

function describe({ path, line, expected, got }: ConfigProblem): string {
  const where = line === undefined ? path : `line ${line}: ${path}`
  return expected.startsWith(NO_SUCH)
    ? `${where}: there is no such setting${expected.slice(NO_SUCH.length) || '; docs/configuration.md lists them'}`
    : `${where}: expected ${expected}, got ${got}`
}

/** A setting that the schema allows and that still cannot mean what it says. */
export type ConfigPath = readonly (string | number)[]

type Broken = {
  /** The way to the setting. */
  at: ConfigPath
  expected: string
  /** What came, where showing the setting's value would not say it. Never a secret. */
  got?: string
}

export type Rule = Generator<Broken, void>
