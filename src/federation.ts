/**
 * The composition root: a configuration becomes running parts. The only file that knows every room.
 * `listings -> verdicts -> offers -> signals -> snapshot`, again whenever an upstream or a provider changes.
 */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { type CompiledProvider, compileProviders, nextBoundary } from './authz/decide.js'
import { policyFor } from './authz/policy.js'
import { createProviders, type Providers } from './authz/providers.js'
import { referencesFor } from './authz/references.js'
import { viewProvider } from './authz/view.js'
import { createCoalescer } from './coalesce.js'
import type { Config } from './config-values.js'
import { buildSnapshot } from './feed/builder.js'
import { type Contribution, contributions } from './feed/contributions.js'
import { createFeed, type Feed } from './feed/feed.js'
import type { Judge } from './feed/judge.js'
import type { Clock } from './net/clock.js'
import { createEgress } from './net/egress.js'
import { opening } from './opening.js'
import { type Sandbox, startSandbox } from './sandbox/world.js'
import { createServer } from './server/app.js'
import { openStore, type Store } from './store/store.js'
import type { Blobs } from './upstreams/blobs.js'
import type { UpstreamStatus } from './upstreams/status.js'
import { createUpstreams, type Upstreams } from './upstreams/upstreams.js'

const DEFAULT_SANDBOX_SIGNALS = 2_400
const PROVIDER_CONCURRENCY = 16
const RETAIN = { count: 4, ms: 15 * 60_000 } // a walk that takes longer than this starts again
const SECRET_NAME = 'cursor-secret'

export type FederationOptions = {
  config: Config
  sandboxSignals?: number
  version: string
  clock: Clock
  random: () => number
  log: Logger
}

export type Federation = {
  app: FastifyInstance
  /** Where the server listens. */
  url: string
  /** Resolves when the first snapshot is published: every upstream has answered, or had its time. */
  ready: Promise<void>
  feed: Feed
  statuses(): readonly UpstreamStatus[]
  contributions(): Contribution[]
  close(): Promise<void>
}

/** The same for all replicas that share a storage, and after every restart: cursors outlive both. */
async function cursorSecret(blobs: Blobs): Promise<Uint8Array> {
  const [known] = (await blobs.read(SECRET_NAME)) ?? []
  if (known) return known
  const fresh = randomBytes(32)
  await blobs.write(SECRET_NAME, [fresh])
  return (await blobs.read(SECRET_NAME))?.[0] ?? fresh
}

function upstreamsConfig({ registries, upstreams, defaults }: Config) {
  return {
    registries,
    statics: upstreams.map(({ id, protocol, auth, ...entry }) => ({
      ...entry,
      ...(id && { id }),
      ...(protocol && { protocol }),
      ...(auth && { auth }),
    })),
    policy: {},
    defaults,
  }
}

/** Verdicts as of now, from what is held of the providers; documents are compiled once. */
function createBench(config: Config, providers: Providers, clock: Clock) {
  let compiled = new Map<string, CompiledProvider>()
  function refresh(): ReadonlyMap<string, CompiledProvider> {
    compiled = compileProviders(providers.states(), compiled)
    return compiled
  }
  function judge(): Judge {
    refresh()
    const now = clock.now()
    return (domain) => {
      const provider = compiled.get(domain) ?? { domain, expiresAt: 0, reason: 'pending' as const }
      const view = viewProvider(provider, now)
      const policy = policyFor(config.authorization, domain)
      return { ...view, policy, stamp: `${policy} ${view.stamp}` }
    }
  }
  function nextChange(): number | undefined {
    const instants = [...compiled.values()].flatMap((provider) => nextBoundary(provider, clock.now()) ?? [])
    return instants.length > 0 ? Math.min(...instants) : undefined
  }
  return { judge, refresh, nextChange }
}

/** Starts everything; throws when the storage cannot be opened or the address cannot be listened on. */
export async function startFederation(options: FederationOptions): Promise<Federation> {
  const { config, version, clock, random, log } = options
  const closers: (() => Promise<void>)[] = []
  const close = async () => {
    for (const each of closers.splice(0).reverse()) await each()
  }
  try {
    const sandbox: Sandbox | undefined = config.sandbox
      ? await startSandbox({ signals: options.sandboxSignals ?? DEFAULT_SANDBOX_SIGNALS })
      : undefined
    if (sandbox) closers.push(() => sandbox.close())
    const egress = createEgress({
      policy: { ...config.egress, hosts: { ...sandbox?.hosts, ...config.egress.hosts } },
    })
    closers.push(() => egress.close())
    const store: Store = await openStore({
      url: config.storage.url,
      now: clock.now,
      onProblem: (problem) => log.warn({ problem }, 'storage'),
    })
    closers.push(() => store.close())

    const providers = createProviders({
      send: egress.send,
      blobs: store.blobs,
      clock,
      refreshMs: config.authorization.refreshMs,
      concurrency: PROVIDER_CONCURRENCY,
      log,
    })
    closers.push(() => providers.close())
    const bench = createBench(config, providers, clock)
    const upstreams: Upstreams = createUpstreams({
      config: upstreamsConfig(config),
      send: egress.send,
      blobs: store.blobs,
      clock,
      random,
      referencesFor: (agentUrl) => referencesFor(bench.refresh(), agentUrl, clock.now()),
      onTrouble: (message) => log.warn({ message }, 'upstreams'),
    })
    closers.push(() => upstreams.close())

    const feed = createFeed({ cursorSecret: await cursorSecret(store.blobs), retain: RETAIN })
    const askedAgain = new Map<string, number>()
    let cancelBoundary = () => {}
    const rebuild = createCoalescer(async () => {
      try {
        const previous = feed.current()
        const snapshot = buildSnapshot({
          slices: upstreams.slices(),
          judge: bench.judge(),
          ...(previous && { previous }),
        })
        feed.publish(snapshot, clock.now())
        cancelBoundary()
        const next = bench.nextChange()
        if (next !== undefined) cancelBoundary = clock.after(next - clock.now(), () => void rebuild.request())
      } catch (err) {
        log.error({ err }, 'a snapshot could not be built; the last one stays')
      }
    })
    closers.push(async () => {
      cancelBoundary()
      await rebuild.close()
    })
    upstreams.onChange(() => {
      providers.want(upstreams.providerDomains())
      if (feed.current()) void rebuild.request()
    })
    providers.onChange(() => {
      for (const { id, mode, problem } of upstreams.statuses()) {
        if (mode !== 'enumerated' && problem?.reason !== 'not_enumerable') continue
        askedAgain.set(id, clock.now())
        upstreams.refreshSoon(id)
      }
      if (feed.current()) void rebuild.request()
    })

    const address = `http://${config.listen.host}:${config.listen.port}`
    const app = createServer({
      publicUrl: config.listen.publicUrl ?? address,
      version,
      feed,
      upstreams,
      facts: () => factsOf(config, feed),
      callers: config.callers,
      rateLimit: config.callers.rateLimit,
      ...(config.callers.jwt && { jwt: { ...config.callers.jwt, send: egress.send, now: clock.now } }),
      log,
    })
    closers.push(() => app.close())
    const url = await app.listen({ host: config.listen.host, port: config.listen.port })
    await upstreams.start()

    return {
      app,
      url,
      ready: opening({ upstreams, providers, askedAgain, clock }).then(() => rebuild.request()),
      feed,
      statuses: () => upstreams.statuses(),
      contributions: () => {
        const snapshot = feed.current()
        return snapshot ? contributions(snapshot, bench.judge()) : []
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function factsOf(config: Config, feed: Feed) {
  const snapshot = feed.current()
  return {
    providerDomains: (snapshot?.facts.domains ?? []).filter((domain) => domain !== '').sort(),
    servesOwned: snapshot?.facts.type.includes(1) ?? false,
    accountOverlays: config.callers.keys.some(({ accounts }) => Object.keys(accounts).length > 0),
  }
}
