/**
 * Everything between agents and the task get_signals as a server puts it together, over agents in memory and under a clock that
 * only a test moves. The configuration is read again as a reload reads it.
 */
import { pino } from 'pino'
import type { GetSignalsRequest } from '../../../src/adcp/signal-requests.js'
import { createStack } from '../../../src/composition/foundation.js'
import { createPublisher } from '../../../src/composition/publishing.js'
import { createInForce } from '../../../src/composition/running-config.js'
import { admissionSettings, upstreamsSettings } from '../../../src/composition/settings.js'
import { createSources } from '../../../src/composition/sources.js'
import { parseConfig } from '../../../src/config/load.js'
import { createAdmission } from '../../../src/server/door/admission.js'
import { createBuilderHost } from '../../../src/snapshot/builder-host.js'
import { getSignals } from '../../../src/tasks/get-signals.js'
import { createPassingBlobs } from '../../../src/upstreams/rows/storage.js'
import { emptyFeed } from '../../feed/feed-of.js'
import type { Answer } from '../../support/federation.js'
import { onlyLookups } from '../../support/only-lookups.js'
import { createManualClock } from '../../support/upstream-clock.js'
import { createSpoken, type ProviderFile, type Spoken } from './spoken-agents.js'

const STILL_TURNS = 4 // without a request and with nothing to build: nothing is going on
const MOST_TURNS = 20_000
const NEVER = new AbortController().signal
const KEPT = { ms: 1e12, bytes: 2 ** 30 }

export type Said = Answer & { unchanged?: boolean; cache_scope?: string }

/** `file`: the configuration. Nothing is served before the first `quiet`. */
export function startSpoken(
  agents: readonly Spoken[],
  files: ReadonlyMap<string, ProviderFile>,
  file: object,
) {
  const time = createManualClock()
  const { clock } = time
  const read = (next: object) => parseConfig('test', JSON.stringify(next), {})
  const inForce = createInForce(read(file))
  const config = inForce.file
  const stack = createStack()
  const { send, underWay } = createSpoken(agents, files)
  const log = pino({ level: 'silent' })
  const { upstreams, questions, worlds } = createSources(
    {
      ...{ config, send, sendToUpstreams: send, blobs: createPassingBlobs() },
      ...{ clock, random: () => 0.5, log },
    },
    stack,
  )
  const admission = createAdmission(admissionSettings(config(), send, clock))
  inForce.onChange((next) => admission.reconfigure(admissionSettings(next, send, clock)))
  inForce.onChange((next) => upstreams.reconfigure(upstreamsSettings(next)))
  inForce.onChanged(worlds.moved)
  const feed = emptyFeed(KEPT)
  const publisher = stack.add(
    createPublisher({
      isComing: () => false,
      ...{ worlds, feed, clock, log, rows: upstreams },
      ...{ builder: stack.add(createBuilderHost()), random: () => 0, onPublished: () => {} },
      onFailure: () => {
        throw new Error('a build failed')
      },
    }),
  )
  const task = getSignals({
    ...{ feed, upstreams, discovery: onlyLookups(feed) },
    declaredAccounts: async () => false,
  })

  const isStill = () => {
    const { built, wanted } = publisher.revisions()
    return underWay() === 0 && built === wanted
  }

  /** Resolves when nothing goes on that needs no time. */
  async function quiet(): Promise<void> {
    for (let still = 0, turns = 0; still < STILL_TURNS; turns += 1) {
      if (turns > MOST_TURNS) throw new Error('it never came to rest')
      await new Promise(setImmediate)
      still = isStill() ? still + 1 : 0
    }
  }

  /** The same object for a caller that asks again, as the server keeps it. */
  const inputs = new Map<string, GetSignalsRequest>()
  function inputOf(input: object): GetSignalsRequest {
    const text = JSON.stringify(input)
    const found = inputs.get(text) ?? (input as GetSignalsRequest)
    inputs.set(text, found)
    return found
  }

  /** Undefined: whoever has this key is turned away at the door. */
  async function ask(key: string | undefined, input: object, comesAgain = false): Promise<Said | undefined> {
    const credentials = { authorization: key && `Bearer ${key}`, address: '192.0.2.1' }
    const who = await admission.identify(credentials)
    if (who.kind !== 'caller') return undefined
    const now = clock.now()
    const answer = await task.handle(comesAgain ? inputOf(input) : (input as GetSignalsRequest), {
      ...{ caller: who.caller, release: '3.1', now, deadline: now + 10_000, comesAgain },
      ...{ signal: NEVER, contextId: 'c', transport: 'mcp', requestId: 'r' },
    })
    if (answer.kind === 'refused') return { status: 'failed', adcp_error: answer.error } as Said
    if (answer.kind !== 'answer') throw new Error(`a question failed: ${answer.kind}`)
    const { fields, rows } = answer
    const signals = rows && JSON.parse(`[${Buffer.concat(rows.parts).toString()}]`)
    return { status: 'completed', ...JSON.parse(JSON.stringify(fields)), ...(signals && { signals }) } as Said
  }

  return {
    ask,
    quiet,
    time,
    async start(): Promise<void> {
      await upstreams.start()
      void questions.open(upstreams)
      void publisher.open()
      await quiet()
    },
    apply: (next: object) => inForce.read(read(next)),
    statuses: () => [...upstreams.statuses(), ...upstreams.accountStatuses()],
    close: stack.close,
  }
}
