/**
 * Loads the configuration (docs/configuration.md): YAML or JSON, `${NAME}` from the environment, checked with the schema and
 * with the rules between settings that a schema cannot say, every problem named at once with its path and line, durations
 * turned into milliseconds and defaults filled in.
 */
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { ErrorObject } from 'ajv'
import { nearest } from '../adcp/issue-words.js'
import { isRecord } from '../adcp/json.js'
import { createChecks, type TObject, type TSchema, Type } from '../adcp/schema.js'
import {
  baseUrlRule,
  egressRules,
  listenRules,
  providerRules,
  registryRules,
  upstreamRules,
} from './address-rules.js'
import { callerRules } from './callers.js'
import { limitRules, retentionRules, timeRules } from './quantities.js'
import { ConfigFile, type ConfigPath, type Rule } from './schema.js'
import { pathText, shownValue } from './shown-value.js'
import { type Config, readSigningKey, toConfig } from './values.js'
import { readYaml, type Yaml } from './yaml.js'

/** A workspace of its own, in a clone only: the published package holds none. */
export const DEMO_WORLD = new URL('../../sandbox/world.js', import.meta.url)
export const holdsDemoWorld = () => existsSync(fileURLToPath(DEMO_WORLD))

const SIGNING_KEY = 'a private Ed25519 or P-256 key: a JSON Web Key with a kid, or an id beside a key in PEM'

function* eventRules({ events, webhooks }: ConfigFile): Rule {
  yield* baseUrlRule(events?.public_url, ['events', 'public_url'])
  yield* baseUrlRule(events?.brand_json_url, ['events', 'brand_json_url'])
  if (events?.signing_key !== undefined && !readSigningKey(events.signing_key)) {
    yield { at: ['events', 'signing_key'], expected: SIGNING_KEY }
  }
  if (webhooks?.signing_key === undefined) return
  if (events?.signing_key !== undefined) {
    yield { at: ['webhooks', 'signing_key'], expected: 'nothing, as events.signing_key is the same setting' }
  } else if (!readSigningKey(webhooks.signing_key)) {
    yield {
      at: ['webhooks', 'signing_key', 'private_key'],
      expected: 'an Ed25519 or P-256 private key in PEM',
    }
  }
}

/** The currency in which others are measured is worth one of itself. */
function* rateRules({ currencies }: ConfigFile): Rule {
  const measure = currencies?.in ?? 'USD'
  const own = currencies?.rates[measure]
  if (own !== undefined && own !== 1) {
    yield { at: ['currencies', 'rates', measure], expected: 'nothing: the others are measured in it' }
  }
}

/** A tool that forces statuses and results must not run where anything is real. */
function* testRules({ sandbox, test_controller }: ConfigFile, production: boolean): Rule {
  if (!test_controller) return
  if (!sandbox) yield { at: ['test_controller'], expected: 'false, or sandbox: true beside it' }
  if (production) yield { at: ['test_controller'], expected: 'false where NODE_ENV is production' }
}

/** 3.2 signs requests in a way of its own, and an endpoint has one (specification 3.2, "Request signing"). */
function* previewRules({ preview_releases: previews = [], callers }: ConfigFile): Rule {
  if (previews.length > 0 && callers?.keys?.some(({ signing }) => signing)) {
    yield {
      at: ['preview_releases'],
      expected: 'none beside callers with signing, whose signatures are of 3.1',
    }
  }
}

/** What is wrong: the way to each setting and what was expected there. */
function* brokenRules(file: ConfigFile, production: boolean): Rule {
  yield* listenRules(file)
  yield* registryRules(file)
  yield* upstreamRules(file)
  yield* timeRules(file)
  yield* limitRules(file)
  yield* retentionRules(file)
  yield* providerRules(file)
  yield* egressRules(file)
  yield* callerRules(file)
  yield* eventRules(file)
  yield* previewRules(file)
  yield* rateRules(file)
  yield* testRules(file, production)
}

/** One thing that is wrong: where in the file, what was expected, what came. Never a secret's value. */
export type ConfigProblem = { path: string; line?: number | undefined; expected: string; got: string }

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
function expectation(error: ErrorObject): string {
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

export type Environment = Readonly<Record<string, string | undefined>>

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

/** Names a content. */
const revisionOf = (content: string) => hash('sha256', content, 'hex').slice(0, 12)

/**
 * What a schema says of the settings that a file has; of others it says only that they may be there. To compile all of it would
 * take longer than the rest of reading a file.
 */
function concerning(value: unknown, schema: TSchema): TSchema {
  if (isRecord(value) && schema.properties) {
    const of = ([name, setting]: [string, TSchema]) =>
      [name, Object.hasOwn(value, name) ? concerning(value[name], setting) : Type.Unknown()] as const
    return {
      ...schema,
      properties: Object.fromEntries(Object.entries((schema as TObject).properties).map(of)),
    }
  }
  return Array.isArray(value) && value.length === 0 ? { ...schema, items: Type.Unknown() } : schema
}

/** Checks one file. It is checked once, so what makes a check faster costs more than it saves. */
function createCheck(file: unknown) {
  const check = createChecks({
    ...{ allErrors: true, verbose: true, strictNumbers: true }, // YAML has numbers without end (.inf)
    code: { optimize: false },
  })
  return check<ConfigFile>(concerning(file, ConfigFile))
}

function interpolate(
  value: unknown,
  environment: Environment,
  missing: (name: string, at: ConfigPath) => void,
) {
  const walk = (node: unknown, at: ConfigPath): unknown => {
    if (typeof node === 'string') {
      return node.replace(VARIABLE, (whole, name: string) => {
        const found = environment[name]
        if (found === undefined) missing(name, at)
        return found ?? whole
      })
    }
    if (Array.isArray(node)) return node.map((item, index) => walk(item, [...at, index]))
    if (node && typeof node === 'object') {
      return Object.fromEntries(Object.entries(node).map(([key, item]) => [key, walk(item, [...at, key])]))
    }
    return node
  }
  return walk(value, [])
}

function stepsOf(error: ErrorObject, value: unknown): ConfigPath {
  const steps: (string | number)[] = []
  let node = value
  for (const part of error.instancePath.split('/').slice(1)) {
    const step = part.replaceAll('~1', '/').replaceAll('~0', '~')
    steps.push(Array.isArray(node) ? Number(step) : step)
    node = (node as Record<string, unknown>)[step]
  }
  const extra = error.params.additionalProperty ?? error.params.missingProperty
  return typeof extra === 'string' ? [...steps, extra] : steps
}

function valueAt(file: unknown, steps: ConfigPath): unknown {
  return steps.reduce<unknown>((node, step) => (node as Record<string | number, unknown>)?.[step], file)
}

const unreadable = (path: string, faults: Yaml['faults'], revision?: string) =>
  new ConfigError(
    path,
    faults.map((fault) => ({ path: 'the file', ...fault })),
    revision,
  )

/** What is written, with what stands in the environment, and a name for it. */
export type Written = { file: ConfigFile; revision: string }

/** Reads and checks a text. Throws `ConfigError`, which names every problem. */
export function readConfig(path: string, text: string, environment: Environment): Written {
  const { content, faults, lineOf } = readYaml(text)
  if (faults.length > 0) throw unreadable(path, faults, revisionOf(text))
  const problems: ConfigProblem[] = []
  const problem = (steps: ConfigPath, expected: string, got = shownValue(steps, valueAt(content, steps))) =>
    problems.push({ path: pathText(steps), line: lineOf(steps), expected, got })
  const file = interpolate(content, environment, (name, at) =>
    problem(at, `the environment variable ${name}`, 'none; set it or remove the reference'),
  )
  const { conforms, errors } = createCheck(file)
  if (conforms(file)) {
    for (const { at, expected, got } of brokenRules(file, environment.NODE_ENV === 'production')) {
      problem(at, expected, got)
    }
  } else {
    for (const error of errors()) problem(stepsOf(error, file), expectation(error))
  }
  const revision = revisionOf(JSON.stringify(file))
  if (problems.length > 0) throw new ConfigError(path, problems, revision)
  return { file: file as ConfigFile, revision }
}

/** The configuration in a text. Throws `ConfigError`, which names every problem. */
export function parseConfig(path: string, text: string, environment: Environment): Config {
  const { file, revision } = readConfig(path, text, environment)
  return toConfig(path, revision, file)
}

/** What stands in the file. Throws `ConfigError` when it cannot be read. */
export async function configText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new ConfigError(path, [{ path: 'the file', expected: 'a readable file', got: code }])
  }
}

/** Reads and parses the file. Throws `ConfigError`, also when it cannot be read. */
export async function loadConfig(path: string, environment: Environment): Promise<Config> {
  return parseConfig(path, await configText(path), environment)
}

/** Where a server with this configuration listens, and whether it serves the demo world, which a package does not. */
type ServerPlace = { host: string; port: number; sandbox: boolean }

const DEFAULT_PLACE: ServerPlace = { host: '127.0.0.1', port: 8080, sandbox: false }

/**
 * The same without the rest of the file: who only asks a running server needs none of its secrets, and no file without
 * faults. Throws `ConfigError` when it cannot be read.
 */
export async function loadPlace(path: string, environment: Environment): Promise<ServerPlace> {
  const { content, faults } = readYaml(await configText(path))
  if (faults.length > 0) throw unreadable(path, faults)
  const file = interpolate(content, environment, () => {}) as Partial<ConfigFile>
  const { host = DEFAULT_PLACE.host, port = DEFAULT_PLACE.port } = file.listen ?? {}
  return { host, port, sandbox: file.sandbox === true && holdsDemoWorld() }
}
