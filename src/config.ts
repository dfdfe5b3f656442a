/**
 * Loads the configuration (DESIGN 6): YAML or JSON, `${NAME}` from the environment, every problem named at once with
 * its path and line, durations turned into milliseconds and defaults filled in.
 */
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Ajv, type ErrorObject } from 'ajv'
import ipaddr from 'ipaddr.js'
import { isNode, LineCounter, parseDocument } from 'yaml'
import type { AccountReference } from './adcp/account.js'
import type { Destination } from './adcp/signal.js'
import type { PolicySettings } from './authz/policy.js'
import { ConfigError, type ConfigProblem, expectation, pathText, shownValue } from './config-problem.js'
import { type AuthEntry, ConfigFile } from './config-schema.js'

export type Auth = { type: 'bearer'; token: string } | { type: 'header'; name: string; value: string }

export type Config = {
  file: string
  /** Names the content: the same file and environment give the same revision. */
  revision: string
  listen: { host: string; port: number; publicUrl: string | undefined }
  registries: { url: string; refreshMs: number; headers: Record<string, string> }[]
  upstreams: {
    id: string | undefined
    url: string
    protocol: 'mcp' | 'a2a' | undefined
    auth: Auth | undefined
    seeds: readonly string[]
    exclude: boolean
  }[]
  defaults: {
    timeoutMs: number
    refreshMs: number
    staleAfterMs: number
    dropAfterMs: number
    concurrency: number
    pageSize: number
  }
  authorization: PolicySettings & { refreshMs: number }
  egress: { allowHttp: boolean; allowNetworks: readonly string[]; hosts: Readonly<Record<string, string>> }
  callers: {
    anonymous: 'deny' | 'metadata'
    keys: CallerKey[]
    jwt: { issuer: string; audience: string; jwksUrl: string } | undefined
    rateLimit: { perSecond: number; burst: number }
  }
  storage: { url: string }
  sandbox: boolean
}

export type CallerKey = {
  id: string
  tokenSha256: string
  role: 'buyer' | 'operator'
  destinations: readonly Destination[]
  /** The caller's account -> upstream id -> that upstream's account reference. */
  accounts: Readonly<Record<string, Readonly<Record<string, AccountReference>>>>
  /** Upstream id -> the caller's own credential there. */
  credentials: Readonly<Record<string, Auth>>
}

type Steps = readonly (string | number)[]
type Environment = Readonly<Record<string, string | undefined>>

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

const check = new Ajv({ allErrors: true, verbose: true, strict: false }).compile<ConfigFile>(ConfigFile)

/** Milliseconds of `250ms`, `30s`, `5m`, `24h`, `7d`; the schema has checked the form. */
function durationMs(text: string): number {
  const [, amount, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? []
  return Number(amount) * (UNIT_MS[unit ?? ''] ?? Number.NaN)
}

function interpolate(value: unknown, environment: Environment, missing: (name: string, at: Steps) => void) {
  const walk = (node: unknown, at: Steps): unknown => {
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

function stepsOf(error: ErrorObject, value: unknown): Steps {
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

/** Rules that a schema cannot say, as [steps, expected] pairs. */
function* crossChecks(file: ConfigFile): Generator<[Steps, string]> {
  function* auth(entry: AuthEntry | undefined, at: Steps): Generator<[Steps, string]> {
    if (entry?.type === 'bearer' && !entry.token) yield [[...at, 'token'], 'a token, as type is bearer']
    if (entry?.type === 'header' && !entry.name) yield [[...at, 'name'], 'a header name, as type is header']
    if (entry?.type === 'header' && !entry.value) yield [[...at, 'value'], 'a value, as type is header']
  }
  for (const [index, upstream] of (file.upstreams ?? []).entries()) {
    yield* auth(upstream.auth, ['upstreams', index, 'auth'])
  }
  for (const [index, network] of (file.egress?.allow_networks ?? []).entries()) {
    if (!ipaddr.isValidCIDR(network)) {
      yield [['egress', 'allow_networks', index], 'a network such as 127.0.0.0/8']
    }
  }
  const ids = new Set<string>()
  for (const [index, key] of (file.callers?.keys ?? []).entries()) {
    const at: Steps = ['callers', 'keys', index]
    if (ids.has(key.id)) yield [[...at, 'id'], 'an id that no other key has']
    ids.add(key.id)
    for (const [name, entry] of Object.entries(key.credentials ?? {})) {
      yield* auth(entry, [...at, 'credentials', name])
    }
    for (const [place, grant] of (key.destinations ?? []).entries()) {
      const needed = grant.type === 'platform' ? 'platform' : 'agent_url'
      if (!grant[needed])
        yield [[...at, 'destinations', place, needed], `${needed}, as type is ${grant.type}`]
    }
  }
}

function toAuth(entry: AuthEntry | undefined): Auth | undefined {
  if (entry?.type === 'bearer') return { type: 'bearer', token: entry.token ?? '' }
  if (entry?.type === 'header') return { type: 'header', name: entry.name ?? '', value: entry.value ?? '' }
  return undefined
}

function toCallers(callers: ConfigFile['callers'] = {}): Config['callers'] {
  return {
    anonymous: callers.anonymous ?? 'deny',
    keys: (callers.keys ?? []).map((key) => ({
      id: key.id,
      tokenSha256: key.token_sha256.toLowerCase(),
      role: key.role ?? 'buyer',
      destinations: (key.destinations ?? []) as Destination[],
      accounts: key.accounts ?? {},
      credentials: Object.fromEntries(
        Object.entries(key.credentials ?? {}).flatMap(([id, entry]) => {
          const auth = toAuth(entry)
          return auth ? [[id, auth]] : []
        }),
      ),
    })),
    jwt: callers.jwt && {
      issuer: callers.jwt.issuer,
      audience: callers.jwt.audience,
      jwksUrl: callers.jwt.jwks_url,
    },
    rateLimit: {
      perSecond: callers.rate_limit?.per_second ?? 2_000,
      burst: callers.rate_limit?.burst ?? 4_000,
    },
  }
}

function toConfig(path: string, revision: string, file: ConfigFile): Config {
  const { listen, defaults, authorization, egress } = file
  return {
    file: path,
    revision,
    listen: {
      host: listen?.host ?? '127.0.0.1',
      port: listen?.port ?? 8080,
      publicUrl: listen?.public_url?.replace(/\/$/, ''),
    },
    registries: (file.registries ?? []).map(({ url, refresh, headers }) => ({
      url: url.replace(/\/$/, ''),
      refreshMs: durationMs(refresh ?? '5m'),
      headers: headers ?? {},
    })),
    upstreams: (file.upstreams ?? []).map(({ id, url, protocol, auth, seeds, exclude }) => ({
      id,
      url,
      protocol,
      auth: toAuth(auth),
      seeds: seeds ?? [],
      exclude: exclude ?? false,
    })),
    defaults: {
      timeoutMs: durationMs(defaults?.timeout ?? '30s'),
      refreshMs: durationMs(defaults?.refresh ?? '5m'),
      staleAfterMs: durationMs(defaults?.stale_after ?? '1h'),
      dropAfterMs: durationMs(defaults?.drop_after ?? '24h'),
      concurrency: defaults?.concurrency ?? 4,
      pageSize: defaults?.page_size ?? 100,
    },
    authorization: {
      policy: authorization?.policy ?? 'strict',
      refreshMs: durationMs(authorization?.refresh ?? '6h'),
      providers: Object.fromEntries(
        Object.entries(authorization?.providers ?? {}).map(([domain, entry]) => [
          domain.toLowerCase(),
          entry,
        ]),
      ),
    },
    egress: {
      allowHttp: egress?.allow_http ?? false,
      allowNetworks: egress?.allow_networks ?? [],
      hosts: egress?.hosts ?? {},
    },
    callers: toCallers(file.callers),
    storage: { url: file.storage?.url ?? 'file:./data' },
    sandbox: file.sandbox ?? false,
  }
}

/** The configuration in a text. Throws `ConfigError`, which names every problem. */
export function parseConfig(path: string, text: string, environment: Environment): Config {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const lineOf = (steps: Steps): number | undefined => {
    for (let depth = steps.length; depth > 0; depth -= 1) {
      const node = document.getIn(steps.slice(0, depth), true)
      if (isNode(node) && node.range) return lines.linePos(node.range[0]).line
    }
    return undefined
  }
  const problems: ConfigProblem[] = document.errors.map(({ message, linePos }) => ({
    path: 'the file',
    line: linePos?.[0].line,
    expected: 'YAML or JSON',
    got: message.split('\n')[0] ?? 'something else',
  }))
  if (problems.length > 0) throw new ConfigError(path, problems)

  const problem = (steps: Steps, expected: string, got: string) =>
    problems.push({ path: pathText(steps), line: lineOf(steps), expected, got })
  const file = interpolate(document.toJS() ?? {}, environment, (name, at) =>
    problem(at, `the environment variable ${name}`, 'none; set it or remove the reference'),
  )
  if (check(file)) {
    for (const [steps, expected] of crossChecks(file)) problem(steps, expected, 'something else')
  } else {
    for (const error of check.errors ?? []) {
      const steps = stepsOf(error, file)
      const got = error.keyword === 'required' ? 'nothing' : shownValue(pathText(steps), error.data)
      problem(steps, expectation(error), got)
    }
  }
  if (problems.length > 0) throw new ConfigError(path, problems)
  const revision = hash('sha256', JSON.stringify(file), 'hex').slice(0, 12)
  return toConfig(path, revision, file as ConfigFile)
}

/** Reads and parses the file. Throws `ConfigError`, also when it cannot be read. */
export async function loadConfig(path: string, environment: Environment): Promise<Config> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new ConfigError(path, [{ path: 'the file', expected: 'a readable file', got: code }])
  }
  return parseConfig(path, text, environment)
}
