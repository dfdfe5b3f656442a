/**
 * The composition root: a configuration becomes running parts, each made of those before it.
 * `listings -> verdicts -> offers -> signals -> snapshot`, again whenever an upstream or a provider changes.
 */
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type ActivationOptions, createActivation } from '../activation/activation.js'
import type { Config } from '../config/values.js'
import type { Contribution } from '../explain/upstream.js'
import { createFeed, type Feed } from '../feed/feed.js'
import { overlayName, type Reader } from '../feed/query.js'
import { createOperations, type Operations } from '../operations/operations.js'
import { createAdmission } from '../server/door/admission.js'
import { callFailed } from '../upstreams/agent/agent.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { createFeedEvents } from './feed-events.js'
import {
  createStack,
  type Foundation,
  type FoundationOptions,
  layFoundation,
  type Stack,
} from './foundation.js'
import { createPublishing, type Publishing } from './publishing.js'
import { openServer } from './serving.js'
import {
  admissionSettings,
  credentialOf,
  declaredAccountsOf,
  nonceCheck,
  settledAtStart,
  upstreamsSettings,
} from './settings.js'
import { createSources, opening, type Sources } from './sources.js'

/** A walk that takes longer, or for whose snapshot there is no memory, starts again. */
const RETAIN = { ms: 15 * 60_000, bytes: 1024 ** 3 }

type FederationOptions = FoundationOptions & {
  version: string
  /** Told of each step of an activation: a crash test kills the whole process there. */
  reached?: ActivationOptions['reached']
  /** How long the first feed waits for whoever does not answer, ms. */
  openAfterMs?: number
  /** How long after a restart questions wait for what the feed was merged from, ms. */
  restMs?: number
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
    const onProblem = (err: unknown) => options.log.warn({ err }, 'not all that had started could be stopped')
    await stack.close().catch(onProblem) // why it could not start is what whoever starts it has to know
    throw error
  }
}

/** Who may come in, as each configuration says. */
function openAdmission({ inForce, store, clock, send, replica }: Foundation) {
  const among = () => replica?.members().length ?? 1
  const settingsOf = (config: Config) => admissionSettings(config, send, clock, among)
  const admission = createAdmission({
    ...settingsOf(inForce.file()),
    ...(store.nonces && { sharedNonces: nonceCheck(store.nonces) }),
  })
  inForce.onChange((config) => admission.reconfigure(settingsOf(config)))
  return admission
}

function openSources(foundation: Foundation, { send: sendToUpstreams }: Operations, stack: Stack) {
  const { inForce, config, send, store, replica, clock, random, log } = foundation
  const { blobs } = store
  const sources = createSources(
    { ...{ config, send, sendToUpstreams, blobs, clock, random, log }, sharing: replica?.sharing },
    stack,
  )
  inForce.onChange((next) => sources.upstreams.reconfigure(upstreamsSettings(next)))
  inForce.onChanged(sources.worlds.moved)
  inForce.onChanged(sources.providers.endConfirmedHolds)
  return sources
}

function openActivation(
  foundation: Foundation,
  { upstreams }: Sources,
  resolve: ActivationOptions['resolve'],
  reached: ActivationOptions['reached'],
) {
  const { config, first, store, clock, warning } = foundation
  return createActivation({
    ...{ store, clock, retention: first.storage.retention, resolve },
    newId: randomUUID,
    upstreamAt: upstreams.idOf,
    hasOwnCredential: (caller, agentUrl) => credentialOf(config(), caller, agentUrl) !== undefined,
    hasSharedCredential: upstreams.hasCredential,
    async call(agentUrl, task, args, { caller, seenAs, isCredentialed, ...context }) {
      const auth = seenAs === 'shared' ? undefined : credentialOf(config(), caller, agentUrl)
      // In another's name the upstream would know neither the key of a repetition nor the caller's tasks.
      if (seenAs === 'own' && !auth) return callFailed('unauthorized', 'the credential of the caller is gone')
      if (isCredentialed && !auth && !upstreams.hasCredential(agentUrl))
        return callFailed('unauthorized', 'the credential for the agent is gone')
      return await upstreams.call(agentUrl, task, args, { ...context, ...(auth && { auth }) })
    },
    refreshSoon: upstreams.refreshSoon,
    onProblem: warning('activation'),
    ...(reached && { reached }),
  })
}

/** Where a handle leads: by the feed, or by what an agent said to a brief. */
function resolving(feed: Feed, { briefs }: Publishing): ActivationOptions['resolve'] {
  return async (handle, caller, account) => {
    const layer = account && overlayName(caller, account)
    const reader: Reader = { caller, visibility: 'full', grants: [], ...(layer && { account: layer }) }
    const found = feed.resolve(handle, layer) ?? (await briefs.resolve(handle, reader))
    return found ?? (feed.current() ? undefined : 'not_ready')
  }
}

async function composed(options: FederationOptions, stack: Stack): Promise<Federation> {
  const foundation = await layFoundation(options, stack)
  const { inForce, config, store, clock, replica, secret, running, warning } = foundation
  const admission = openAdmission(foundation)
  const operations = stack.add(
    createOperations({
      ...{ config, store, clock, send: foundation.send, underWay: foundation.underWay },
      ...{ blobs: store.blobs, configuration: running },
      ...{ suspended: () => inForce.overrides().suspended, limitedCallers: admission.limited },
      onTrouble: warning('console'),
      parts: () => ({ ...sources, feed, publisher }),
    }),
  )
  const sources = openSources(foundation, operations, stack)
  const { upstreams, providers, questions } = sources
  const feed = createFeed({ cursorSecret: secret, retain: RETAIN, rates: () => config().rates })
  const declaredAccounts = declaredAccountsOf(store)
  let agentUrl = ''
  const feedEvents = createFeedEvents(
    {
      ...{ foundation, upstreams, feed, declaredAccounts, agentUrl: () => agentUrl },
      isEverywhere: () => publishing.generations?.isEverywhere() ?? true,
      ...{ onSent: operations.eventSent, onHeard: operations.eventHeard },
    },
    stack,
  )
  const publishing = await createPublishing(
    {
      ...{ foundation, sources, operations, feed },
      ...{ smallFeedBytes: options.smallFeedBytes, restMs: options.restMs },
      onPublished: () => feedEvents.announcer?.published(),
    },
    stack,
  )
  const { briefs, publisher, generations } = publishing
  const resolve = resolving(feed, publishing)
  const activation = stack.add(openActivation(foundation, sources, resolve, options.reached))
  const { app, url, drain } = await openServer(
    {
      ...{ foundation, admission, operations, sources, feed, publishing, activation, feedEvents },
      ...{ version: options.version, declaredAccounts },
      onPublicUrl: (publicUrl) => {
        agentUrl = `${publicUrl}/mcp`
      },
    },
    stack,
  )
  await replica?.listen()
  await upstreams.open()
  await publishing.restore()
  await upstreams.start()
  await replica?.join()
  void questions.open(upstreams)
  activation.start()
  feedEvents.start()
  operations.start()
  const opened = opening({ upstreams, providers, clock, openAfterMs: options.openAfterMs }).then(
    publisher.open,
  )
  return {
    ...{ app, url, feed, drain, statuses: upstreams.statuses },
    contributions: operations.contributions,
    ready: Promise.race([opened, generations?.first() ?? opened]).then(briefs.resume),
    apply(next) {
      const before = config()
      inForce.read(next)
      replica?.revisions.changed()
      return settledAtStart(before, next)
    },
    close: stack.close,
  }
}
