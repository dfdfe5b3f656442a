/**
 * The composition root: a configuration becomes running parts. The only file that knows every room.
 * `listings -> verdicts -> offers -> signals -> snapshot`, again whenever an upstream or a provider changes.
 */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { type ActivationOptions, createActivation } from '../activation/activation.js'
import { type Briefs, createBriefs } from '../briefs/briefs.js'
import { readSynonyms } from '../briefs/ranking/local.js'
import { overlayName } from '../config/callers.js'
import type { Config } from '../config/values.js'
import { readAssets } from '../console/assets.js'
import { createConsole } from '../console/console.js'
import { webhookPolicy } from '../events/webhook.js'
import type { Contribution } from '../explain/contributions.js'
import { createFeed, type Feed } from '../feed/feed.js'
import type { Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import { createEgress } from '../net/egress.js'
import type { Send } from '../net/send.js'
import { createOperations, type ObservedParts, type Operations } from '../operations/operations.js'
import { isTracing, traceRequests } from '../operations/tracing.js'
import { createSharedTasks } from '../server/a2a/a2a-shared.js'
import { createServer } from '../server/app.js'
import { createAdmission } from '../server/door/admission.js'
import type { RunningConfiguration } from '../server/operations.js'
import { createBuilderHost } from '../snapshot/builder-host.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { SNAPSHOT_FORM } from '../snapshot/snapshot-parts.js'
import { createReplica, cursorSecret, type Replica } from '../store/replicas/replica.js'
import type { Store } from '../store/store.js'
import { activateSignal } from '../tasks/activate-signal.js'
import { getTaskStatus } from '../tasks/get-task-status.js'
import { listAccounts } from '../tasks/list-accounts.js'
import { listTasks } from '../tasks/list-tasks.js'
import { reportUsage } from '../tasks/report-usage.js'
import { syncAccounts } from '../tasks/sync-accounts.js'
import { createTestController, scenariosOf } from '../tasks/testing/test-controller.js'
import type { UpstreamStatus } from '../upstreams/agent/status.js'
import { accountAccess, accountsOf, credentialOf, declaredAccountsOf } from './accounts.js'
import { ACTIONS, createActions, NO_OVERRIDES, type Overrides, overridden } from './actions/actions.js'
import { createFeedEvents, createFeedListener, type FeedEvents, factsOf } from './feed-events.js'
import { createGenerations, createSavedFeed } from './generations.js'
import { createDraining, createStack, listening, opening, openStorage, type Stack } from './opening.js'
import { createPublisher } from './publisher.js'
import { admissionSettings, nonceCheck, settledAtStart, upstreamsSettings } from './settings.js'
import { createSources, type Sources } from './sources.js'
import { openDemoWorld } from './way-out.js'

/** A walk that takes longer, or for whose snapshot there is no memory, starts again. */
const RETAIN = { ms: 15 * 60_000, bytes: 1024 ** 3 }
const INDEX_AGAIN_MS = 5_000
const SYNONYMS = fileURLToPath(new URL('../../../config/synonyms.yaml', import.meta.url))

type FederationOptions = {
  config: Config
  sandboxSignals?: number
  /** What /readyz says of the configuration file. */
  configuration?: () => RunningConfiguration
  version: string
  clock: Clock
  random: () => number
  log: Logger
  /** Told of each step of an activation: a crash test kills the whole process there. */
  reached?: ActivationOptions['reached']
  /** Stands before what goes to places that callers name: a test on a busy machine has more patience with them. */
  sendToCallers?: (send: Send) => Send
  /** How long the first feed waits for whoever does not answer, ms. */
  openAfterMs?: number
  /** A feed of so few bytes has no threads of its own; 0: every feed has. */
  smallFeedBytes?: number
}

export type Federation = {
  app: FastifyInstance
  /** Where the server listens. */
  url: string
  /** Resolves when the first snapshot is published and can be searched. */
  ready: Promise<void>
  feed: Feed
  statuses(): readonly UpstreamStatus[]
  contributions(): Promise<readonly Contribution[]>
  /**
   * Makes another configuration the running one, without dropping a request or a slice; gives the settings that change
   * only at the next start. Throws when it contradicts itself; then nothing has changed.
   */
  apply(config: Config): readonly string[]
  /** Says that it is not ready, and resolves when load balancers have had the time to see it (`listen.drain`). */
  drain(): Promise<void>
  /** Finishes what is in flight, then stops everything in the opposite order of its start. */
  close(): Promise<void>
}

/** Starts everything. Throws when the storage cannot be opened or the address cannot be listened on. */
export async function startFederation(options: FederationOptions): Promise<Federation> {
  const stack = createStack()
  try {
    return await composed(options, stack)
  } catch (error) {
    await stack.close()
    throw error
  }
}

const warning = (log: Logger, room: string) => (message: string) => log.warn({ message }, room)

type Base = {
  options: FederationOptions
  config(): Config
  sources: Sources
  operations: Operations
  feed: Feed
  store: Store
  /** To places that callers name. */
  sendToCallers: Send
  feedEvents: FeedEvents
  /** This process among others; absent: it is alone on its storage. */
  replica: Replica | undefined
  /** What cursors are signed with. */
  secret: Uint8Array
}

/** From the world to the published feed, searched and saved. */
async function createPublishing(base: Base, stack: Stack) {
  const { options, config, sources, operations, feed, store, sendToCallers, feedEvents, replica, secret } =
    base
  const { clock, random, log } = options
  const { blobs } = store
  const { upstreams, verdicts, worlds } = sources
  const { signingKey } = config().events
  const builder = stack.add(createBuilderHost(options.smallFeedBytes))
  const savedFeed = stack.add(createSavedFeed({ blobs, clock, onTrouble: warning(log, 'feed') }))
  const discovery = stack.add(
    createBriefs({
      ...{ feed, upstreams, store, clock },
      send: sendToCallers,
      egressPolicy: () => webhookPolicy(config().egress),
      judge: verdicts.judge,
      access: (reader, agentUrl) => accountAccess(config(), reader, agentUrl),
      grantsOf: (caller) => config().callers.keys.find(({ id }) => id === caller)?.destinations ?? [],
      rates: () => config().rates,
      synonyms: await readSynonyms(SYNONYMS),
      ...{ secret, newId: randomUUID, smallFeedBytes: options.smallFeedBytes },
      onTrouble: warning(log, 'discovery'),
      ...(signingKey && { webhookKey: signingKey }),
    }),
  )
  function index(snapshot: Snapshot): void {
    discovery.publish(snapshot).catch((err: unknown) => {
      log.error({ err }, 'a snapshot could not be indexed; the last index stays, and it is tried again')
      clock.after(INDEX_AGAIN_MS, () => {
        if (feed.current() === snapshot) index(snapshot) // else a newer one has been indexed, or will be
      })
    })
  }
  function show(before: Snapshot | undefined, snapshot: Snapshot, seconds: number): void {
    operations.published(before, snapshot, seconds)
    index(snapshot)
    feedEvents.announcer?.published()
  }
  const generations =
    replica &&
    stack.add(
      createGenerations({
        ...{ sharing: replica.sharing, blobs, feed, clock, secret },
        accounts: () => accountsOf(config()),
        onTaken: (before, snapshot) => show(before, snapshot, 0),
        onTrouble: warning(log, 'replicas'),
      }),
    )
  const publisher = stack.add(
    createPublisher({
      ...{ worlds, builder, feed, clock, random, log },
      ...(generations && { generations }),
      onPublished(before, snapshot, seconds) {
        operations.built(before, snapshot)
        if (!generations) savedFeed.keep(snapshot)
        show(before, snapshot, seconds)
      },
      onFailure: operations.buildFailed,
    }),
  )
  return { builder, savedFeed, discovery, publisher, generations }
}

function openActivation({ options, config, sources, feed, store }: Base, discovery: Briefs) {
  const { clock, log, reached } = options
  const { upstreams, agentUrlOf } = sources
  return createActivation({
    ...{ store, clock, retention: options.config.storage.retention },
    newId: randomUUID,
    resolve(handle, caller, account) {
      const layer = account && overlayName(caller, account)
      const reader: Reader = { caller, visibility: 'full', grants: [], ...(layer && { account: layer }) }
      return feed.resolve(handle, layer) ?? discovery.resolve(handle, reader)
    },
    upstreamAt: upstreams.idOf,
    hasOwnCredential: (caller, agentUrl) => credentialOf(config(), caller, agentUrl) !== undefined,
    call(upstream, task, args, { caller, ...context }) {
      const auth = credentialOf(config(), caller, agentUrlOf(upstream))
      return upstreams.call(upstream, task, args, { ...context, ...(auth && { auth }) })
    },
    refreshSoon: upstreams.refreshSoon,
    onProblem: (problem) => log.warn({ problem }, 'activation'),
    ...(reached && { reached }),
  })
}

async function composed(given: FederationOptions, stack: Stack): Promise<Federation> {
  const { version, random, log, configuration } = given
  let current = given.config
  const config = () => current
  const { store, clock } = await openStorage(current, given.clock, log, stack)
  const options = { ...given, clock }
  const demo = await openDemoWorld(current, options.sandboxSignals)
  const hosts = demo ? stack.add(demo).hosts : {}
  const egressPolicy = () => ({ ...current.egress, hosts: { ...hosts, ...current.egress.hosts } })
  const egress = stack.add(
    createEgress({ policy: egressPolicy(), underWayBytes: () => current.limits.underWayBytes }),
  )
  const { send } = egress
  const toCallers = stack.add(createEgress({ policy: webhookPolicy(current.egress) }))
  const sendToCallers = options.sendToCallers?.(toCallers.send) ?? toCallers.send
  const { blobs } = store
  const replica =
    store.replicas &&
    stack.add(
      createReplica({
        ...{ replicas: store.replicas, clock, log },
        ...{ self: randomUUID(), revision: () => current.revision, form: SNAPSHOT_FORM },
      }),
    )
  const running = (): RunningConfiguration => ({
    ...(configuration?.() ?? { revision: current.revision }),
    ...(replica && { replicas: replica.revisions.live() }),
  })
  const operations = stack.add(
    createOperations({
      ...{ send, clock, config, blobs, store, underWay: egress.underWay },
      configuration: running,
      ...{ suspended: () => actions.current().suspended, limitedCallers: () => admission.limited() },
      onTrouble: warning(log, 'console'),
      parts: (): ObservedParts => ({ ...sources, feed, publisher }),
    }),
  )
  const sources = createSources(
    {
      ...{ config, send, blobs, sharing: replica?.sharing, clock, random, log },
      sendToUpstreams: operations.send,
    },
    stack,
  )
  const { upstreams, providers, questions } = sources
  const secret = await cursorSecret(blobs)
  const feed = createFeed({
    cursorSecret: secret,
    retain: RETAIN,
    rates: () => current.rates,
  })
  let agentUrl = ''
  const declaredAccounts = declaredAccountsOf(store)
  const feedEvents = createFeedEvents({
    ...{ config, store, feed, declaredAccounts, send: sendToCallers, clock, random, log },
    agentUrl: () => agentUrl,
    onOutcome: operations.eventSent,
  })
  if (feedEvents.announcer) stack.add(feedEvents.announcer)
  const sharedNonces = store.nonces && nonceCheck(store.nonces)
  const listener = createFeedListener({
    ...{ config, upstreams, send, clock, log, secret, onOutcome: operations.eventHeard },
    ...(sharedNonces && { sharedNonces }),
  })
  if (listener) stack.add(listener)
  const base = {
    ...{ options, config, sources, operations, feed, store, feedEvents, replica, secret },
    sendToCallers: toCallers.send,
  }
  const { builder, savedFeed, discovery, publisher, generations } = await createPublishing(base, stack)
  const activation = stack.add(openActivation(base, discovery))
  const among = () => replica?.members().length ?? 1
  const admission = createAdmission({
    ...admissionSettings(current, send, clock, among),
    ...(sharedNonces && { sharedNonces }),
  })
  const controller = options.config.testController
    ? createTestController({ store, questions: discovery.questions })
    : undefined
  const actions = createActions({
    ...{ config, upstreams, providers, log, store },
    givingUp: { ...activation.givingUp, ...discovery.givingUp, ...feedEvents.announcer?.givingUp },
    override: (overrides) => follow(current, overrides),
  })
  const console = createConsole({
    ...{ version, secret, admission, feed, declaredAccounts, clock },
    ...{ views: operations.views, pulse: operations.pulse, changesOf: operations.changesOf },
    onAsked: operations.consoleAsked,
    assets: await readAssets(),
    current: () => feed.current(),
    searchable: discovery.searchable,
    rates: () => current.rates,
    explain: operations.shown.explain,
    judge: sources.verdicts.judge,
    providerState: providers.state,
    callerIds: () => current.callers.keys.map(({ id }) => id),
    ...{ actions: ACTIONS, audit: store.audit },
    act: actions.run,
  })
  const { handover } = store
  const sharedTasks =
    handover && stack.add(createSharedTasks({ handover, clock, onTrouble: warning(log, 'a2a') }))
  const draining = createDraining(clock, current.listen.drainMs)
  const { app, url } = await listening(current.listen, (publicUrl) => {
    agentUrl = `${publicUrl}/mcp`
    const server = createServer({
      ...{ publicUrl, version, feed, upstreams, log, hooked: isTracing() },
      now: clock.now,
      ...(generations && { recall: generations.recall }),
      ...(sharedTasks && { sharedTasks }),
      discovery: controller?.forced(discovery) ?? discovery,
      facts: () => factsOf(current, options.config.events, feed),
      ...{ revisions: publisher.revisions, storageProblem: store.problem },
      refresh: async (id, who) => (await actions.run('refresh-upstream', id, who)).kind === 'done',
      ...(listener && { feedEvents: listener.receive }),
      ...{ admission, trustedProxies: current.listen.trustedProxies, isStopping: draining.hasBegun },
      ...(options.config.events.signingKey && { signingKey: options.config.events.signingKey }),
      declaredAccounts,
      routes: console.addTo,
      configuration: running,
      tasks: [
        ...[activateSignal, reportUsage, getTaskStatus, listTasks, listAccounts, syncAccounts].map((task) =>
          task({ ...activation, subscribing: feedEvents.subscribing }),
        ),
        ...(controller ? [controller.task] : []),
      ],
      ...(controller && { testScenarios: scenariosOf }),
      previews: options.config.previewReleases,
      replayTtlSeconds: Math.floor(options.config.storage.retention.answersMs / 1_000),
      ...operations.shown,
    })
    traceRequests(server)
    return server
  })
  stack.add(app)
  await replica?.listen()
  const restored = async () => {
    const lastFeed = await savedFeed.load()
    if (lastFeed) builder.restore(lastFeed)
  }
  await Promise.all([replica ? undefined : restored(), upstreams.start()])
  await replica?.join()
  void questions.open(upstreams)
  activation.start()
  feedEvents.announcer?.start()
  listener?.start()
  operations.start()

  /** In one synchronous step: who builds sees the world before it or the one after it. */
  function follow(wanted: Config, overrides: Overrides): void {
    const before = { config: current, overrides: actions.current() }
    const put = (config: Config, changed: Overrides) => {
      current = config
      const inForce = overridden(config, changed)
      egress.reconfigure(egressPolicy())
      toCallers.reconfigure(webhookPolicy(config.egress))
      admission.reconfigure(admissionSettings(inForce, send, clock, among))
      upstreams.reconfigure(upstreamsSettings(inForce))
    }
    try {
      put(wanted, overrides)
    } catch (error) {
      put(before.config, before.overrides)
      throw error
    }
    sources.worlds.moved()
  }

  function apply(next: Config): readonly string[] {
    const before = current
    follow(next, NO_OVERRIDES)
    replica?.revisions.changed()
    actions.forget()
    return settledAtStart(before, next)
  }

  const opened = opening({ upstreams, providers, clock, openAfterMs: options.openAfterMs }).then(
    publisher.open,
  )
  return {
    ...{ app, url, feed, apply, drain: draining.drain },
    ready: Promise.race([opened, generations?.first() ?? opened]).then(discovery.resume),
    statuses: upstreams.statuses,
    contributions: operations.contributions,
    close: stack.close,
  }
}
