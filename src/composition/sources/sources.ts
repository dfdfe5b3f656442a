/** Where a feed comes from: the upstreams, the providers, and the world that both are parts of. */
import type { Logger } from 'pino'
import { createProviders, type Providers } from '../../authz/provider/providers.js'
import { type CompiledProvider, compileProvider } from '../../authz/rules/decide.js'
import type { PolicySettings } from '../../authz/rules/verdict.js'
import type { Config } from '../../config/values.js'
import { FAILURES } from '../../explain/remedies.js'
import { type Judge, judgeAt, pending } from '../../merge/judge.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import { REQUESTS } from '../../signing/profile.js'
import { createSigner } from '../../signing/sign.js'
import type { Blobs } from '../../upstreams/rows/blobs.js'
import type { Sharing } from '../../upstreams/rows/sharing.js'
import { createUpstreams, type UpstreamsOptions } from '../../upstreams/upstreams.js'
import { accountsOf } from '../configuration/account-settings.js'
import { providerSettings, upstreamsSettings } from '../configuration/settings.js'
import type { Stack } from '../start/stack.js'
import { createProviderQuestions } from './provider-questions.js'
import { createWorlds } from './world.js'

/** What providers say now, for this thread: the start table, explain. */
type VerdictsOptions = { providers: Providers; policy: () => PolicySettings; clock: Clock }

export function createVerdicts({ providers, policy, clock }: VerdictsOptions) {
  function provider(domain: string): CompiledProvider {
    const state = providers.state(domain)
    return state ? compileProvider(state) : pending(domain)
  }

  const judge = (): Judge => judgeAt({ get: provider }, policy(), clock.now())

  return { judge, provider }
}

type SourcesOptions = {
  /** The configuration in force. */
  config(): Config
  send: Send
  /** For requests to upstreams. */
  sendToUpstreams: Send
  blobs: Blobs
  /** With other processes on the same storage; absent: this one is alone. */
  sharing?: Sharing | undefined
  clock: Clock
  random(): number
  log: Logger
  /** Which upstreams are read, by their ids. Absent: all. */
  reads?(id: string): boolean
}

export type Sources = ReturnType<typeof createSources>

type OnTransition = NonNullable<UpstreamsOptions['onTransition']>

/** One line in the log for each change of how an upstream, one of its accounts or a registry is doing. */
function logged(log: Logger): OnTransition {
  return (transition) => {
    if ('registry' in transition) {
      const { registry, to, message } = transition
      if (to === 'answers') log.info({ registry }, `registry answers again: ${message}`)
      else log.warn({ registry, reason: to, remedy: FAILURES[to][1] }, `registry: ${message}`)
      return
    }
    const { from, to, reason } = transition
    const level = to === 'fresh' ? 'info' : 'warn'
    const remedy = reason && FAILURES[reason][1]
    log[level](
      { ...transition, ...(remedy && { remedy }) },
      `upstream: ${from === 'starting' ? to : `${from}, now ${to}`}`,
    )
  }
}

/** Makes them; nothing is read before `upstreams.start()`. */
export function createSources(options: SourcesOptions, stack: Stack) {
  const { config, send, sendToUpstreams, blobs, sharing, clock, random, log, reads } = options
  const policy = () => config().authorization
  const { signingKey } = config().events
  const providers = stack.add(
    createProviders({
      ...{ send, blobs, clock, log },
      ...(sharing && { sharing }),
      ...providerSettings(config),
    }),
  )
  const verdicts = createVerdicts({ providers, policy, clock })
  const questions = createProviderQuestions(providers)
  const upstreams = stack.add(
    createUpstreams({
      ...{ blobs, clock, random },
      ...(sharing && { sharing }),
      send: sendToUpstreams,
      config: upstreamsSettings(config()),
      ...(signingKey && { sign: createSigner(signingKey, REQUESTS) }),
      ...(reads && { reads }),
      ...{ referencesFor: questions.referencesFor, namesFor: questions.namesFor },
      onTransition: logged(log),
      onTrouble: (message) => log.warn({ message }, 'upstreams'),
    }),
  )
  stack.add(questions) // upstreams wait for its answers, so it ends before they do
  const worlds = createWorlds({
    ...{ upstreams, providers, policy, clock },
    accounts: () => accountsOf(config()),
  })
  questions.connect(upstreams, worlds.moved)

  /** The canonical url behind an id; a url itself where an upstream is in no roster any more. */
  function agentUrlOf(id: string): string {
    return upstreams.roster().entries.find((entry) => entry.id === id)?.agentUrl ?? id
  }

  return { providers, verdicts, questions, upstreams, worlds, agentUrlOf }
}
