/**
 * The server over all other parts: who may come in, the tasks, the console, what operators can do. Its agent card and its
 * signed identity name the address where it listens, so that is known before. On its way out of service it first says that
 * it is not ready, and answers all the same for so long.
 */
import { randomUUID } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { DeclaredAccounts } from '../activation/accounts.js'
import type { Activation } from '../activation/activation.js'
import { originAt } from '../adcp/url.js'
import type { Config } from '../config/values.js'
import { createConsole } from '../console/console.js'
import type { Feed } from '../feed/feed.js'
import { type Clock, pause } from '../net/clock.js'
import type { Operations } from '../operations/operations.js'
import { isTracing, traceRequests } from '../operations/tracing.js'
import { createApp, type ServerOptions } from '../server/app.js'
import type { Admission } from '../server/door/admission.js'
import { createSharedTasks } from '../server/transports/a2a-tasks.js'
import { activateSignal } from '../tasks/activate-signal.js'
import { createTestController, scenariosOf } from '../tasks/comply-test-controller.js'
import { getTaskStatus } from '../tasks/get-task-status.js'
import { listAccounts } from '../tasks/list-accounts.js'
import { listTasks } from '../tasks/list-tasks.js'
import { reportUsage } from '../tasks/report-usage.js'
import { syncAccounts } from '../tasks/sync-accounts.js'
import { ACTIONS, createActions } from './actions.js'
import type { FeedEvents } from './feed-events.js'
import type { Foundation, Stack } from './foundation.js'
import type { Publishing } from './publishing.js'
import { factsOf } from './settings.js'
import type { Sources } from './sources.js'

const TASKS = [activateSignal, reportUsage, getTaskStatus, listTasks, listAccounts, syncAccounts]

async function freePort(host: string): Promise<number> {
  const probe = createServer().listen(0, host)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/**
 * Builds the server for its public url and listens. Throws when the address cannot be listened on.
 * With port 0 a free port is looked up; when another process takes it first, the server is built for the next one.
 */
export async function listening(
  { host, port, publicUrl }: Pick<Config['listen'], 'host' | 'port' | 'publicUrl'>,
  build: (publicUrl: string) => FastifyInstance,
): Promise<{ app: FastifyInstance; url: string }> {
  for (;;) {
    const own = port === 0 ? await freePort(host) : port
    const app = build(publicUrl ?? originAt(host, own))
    try {
      // For a name with several addresses Fastify would make servers of its own, on which nothing of ours is set.
      const { address } = await lookup(host)
      return { app, url: await app.listen({ host: address, port: own }) }
    } catch (error) {
      await app.close()
      if (port !== 0 || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

/** `ms`: how long load balancers are given to see it. */
function createDraining(clock: Clock, ms: number) {
  let hasBegun = false
  return {
    hasBegun: () => hasBegun,
    /** Resolves when whoever sends requests has had the time to look. */
    async drain(): Promise<void> {
      hasBegun = true
      await pause(clock, ms)
    },
  }
}

type ServingOptions = {
  version: string
  foundation: Foundation
  admission: Admission
  operations: Operations
  sources: Sources
  feed: Feed
  publishing: Publishing
  activation: Activation
  feedEvents: FeedEvents
  declaredAccounts: DeclaredAccounts
  /** Told by which url callers know us, before the first of them comes. */
  onPublicUrl(publicUrl: string): void
}

function createOperatorActions({ foundation, sources, activation, publishing, feedEvents }: ServingOptions) {
  const { inForce, store, log } = foundation
  const { upstreams, providers } = sources
  const { givingUp } = publishing.briefs
  return createActions({
    ...{ inForce, upstreams, providers, log, store },
    givingUp: { ...activation.givingUp, ...givingUp, ...feedEvents.announcer?.givingUp },
  })
}

type Actions = ReturnType<typeof createOperatorActions>

function createConsoleOf(options: ServingOptions, actions: Actions) {
  const { version, foundation, admission, operations, sources, feed, publishing, declaredAccounts } = options
  const { config, store, clock, secret } = foundation
  return createConsole({
    ...{ version, secret, admission, feed, declaredAccounts, clock },
    ...{ views: operations.views, pulse: operations.pulse },
    ...{ changesOf: operations.changesOf, changesKept: operations.changesKept },
    onAsked: operations.consoleAsked,
    current: () => feed.current(),
    searchable: publishing.briefs.searchable,
    rates: () => config().rates,
    explain: operations.shown.explain,
    judge: sources.verdicts.judge,
    providerState: sources.providers.state,
    callerIds: () => config().callers.keys.map(({ id }) => id),
    ...{ actions: ACTIONS, audit: store.audit },
    act: actions.run,
  })
}

/** What the tasks do, and what a server says of them. */
function tasksOf({ foundation, publishing, activation, feedEvents }: ServingOptions) {
  const { first, store, secret } = foundation
  const { briefs } = publishing
  const controller = first.testController
    ? createTestController({ store, pushRules: briefs.pushRules, newId: randomUUID })
    : undefined
  return {
    discovery: controller?.forced(briefs) ?? briefs,
    tasks: [
      ...TASKS.map((task) => task({ ...activation, secret, subscribing: feedEvents.subscribing })),
      ...(controller ? [controller.task] : []),
    ],
    ...(controller && { testScenarios: scenariosOf }),
    previews: first.previewReleases,
    replayTtlSeconds: Math.floor(first.storage.retention.answersMs / 1_000),
  } satisfies Partial<ServerOptions>
}

/** Listens. Throws when the address cannot be listened on. */
export async function openServer(options: ServingOptions, stack: Stack) {
  const { version, foundation, admission, operations, sources, feed, publishing, feedEvents } = options
  const { config, first, store, clock, log, running, warning } = foundation
  const { publisher, generations } = publishing
  const actions = createOperatorActions(options)
  const console = await createConsoleOf(options, actions)
  const { handover } = store
  const sharedTasks = handover && stack.add(createSharedTasks({ handover, clock, onTrouble: warning('a2a') }))
  const draining = createDraining(clock, first.listen.drainMs)
  const served = tasksOf(options)

  function build(publicUrl: string): FastifyInstance {
    options.onPublicUrl(publicUrl)
    const server = createApp({
      ...{ publicUrl, version, feed, upstreams: sources.upstreams, log, hooked: isTracing() },
      now: clock.now,
      ...served,
      ...operations.shown,
      ...(generations && { recall: generations.recall }),
      ...(sharedTasks && { sharedTasks }),
      facts: () => factsOf(config(), first.events, feed),
      ...{ revisions: publisher.revisions, storageProblem: store.problem, rest: publishing.rest },
      refresh: async (id, who) => (await actions.run('refresh-upstream', id, who)).kind === 'done',
      ...(feedEvents.listener && { feedEvents: feedEvents.listener.receive }),
      ...{ admission, trustedProxies: first.listen.trustedProxies, isStopping: draining.hasBegun },
      ...(first.events.signingKey && { signingKey: first.events.signingKey }),
      declaredAccounts: options.declaredAccounts,
      routes: console.addTo,
      configuration: running,
    })
    traceRequests(server)
    return server
  }

  const { app, url } = await listening(first.listen, build)
  stack.add(app)
  return { app, url, drain: draining.drain }
}
