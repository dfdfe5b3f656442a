/**
 * activate_signal and report_usage as the agents of the demo market carry them out: once for an idempotency key,
 * live after the activation delay, visible in the next feed read (specification, "Operation activate_signal").
 */
import canonicalize from 'canonicalize'
import { LRUCache } from 'lru-cache'
import { createChecks } from '../src/adcp/schema.js'
import { Destination } from '../src/adcp/signal.js'
import { deploymentAt, type Stop, stopFor } from './deployments.js'
import type { MarketSignal } from './market.js'
import { type Args, type Body, done, errorOf, invalid, notFound, type Outcome } from './outcome.js'
import type { Profile } from './profiles.js'
import type { Stock } from './stock.js'
import type { TaskBook } from './task-book.js'

const MAX_KEYS = 100_000
const { conforms: isDestination } = createChecks()<Destination>(Destination)
const KEY = /^[A-Za-z0-9_.:-]{16,255}$/

export type Activation = {
  activate(args: Args): Outcome
  reportUsage(args: Args): Outcome
  /** Activations and deactivations that were carried out: replays and refusals do not count. */
  activations(): number
  deactivations(): number
  usageRows(): number
}

export type ActivationOptions = {
  profile: Profile
  stock: Stock
  tasks: TaskBook
  now: () => number
  delayMs: number
}

export function createActivation({ profile, stock, tasks, now, delayMs }: ActivationOptions): Activation {
  // counted by size: `max` would take the memory of all at once, for each agent
  const remembered = new LRUCache<string, { request: string; body: Body }>({
    maxSize: MAX_KEYS,
    sizeCalculation: () => 1,
  })
  let activations = 0
  let deactivations = 0
  let usageRows = 0

  /** Runs `work` once for an idempotency key; refusals are not kept, so that a corrected request may follow. */
  function once(task: string, args: Args, work: () => Outcome): Outcome {
    const key = args.idempotency_key
    if (typeof key !== 'string' || !KEY.test(key)) {
      return invalid('idempotency_key must have 16 to 255 of A-Z a-z 0-9 _ . : -', 'idempotency_key')
    }
    const { context: _, context_id: __, ...counted } = args
    const request = `${task} ${canonicalize(counted)}`
    const before = remembered.get(key)
    if (before && before.request !== request) {
      const error = errorOf('IDEMPOTENCY_CONFLICT', 'The key was used for another request.', {
        field: 'idempotency_key',
      })
      return { kind: 'refused', error }
    }
    if (before) return done({ ...before.body, replayed: true })
    const outcome = work()
    if (outcome.kind === 'done') remembered.set(key, { request, body: outcome.body })
    return outcome
  }

  function switchDesks(signal: MarketSignal, stops: readonly Stop[], live: boolean): Outcome {
    if (live) activations += 1
    else deactivations += 1
    const at = live ? now() + delayMs : now()
    for (const { desk } of stops) stock.schedule(signal.index, desk, live, at)
    const deployments = (reached: boolean) =>
      stops.map((stop) => deploymentAt(profile, signal, stop, reached))
    if (live && stops.some(({ desk }) => profile.desks[desk]?.task)) {
      return done(tasks.submit('activate_signal', at, () => ({ deployments: deployments(true) })))
    }
    const reached = live && delayMs === 0
    const message = live ? (reached ? 'Live.' : 'Activation has started.') : 'No longer live.'
    return done({ deployments: deployments(reached), message })
  }

  function activate(args: Args): Outcome {
    return once('activate_signal', args, () => {
      const live = args.action !== 'deactivate'
      const signal = stock.byHandle(String(args.signal_agent_segment_id))
      if (!signal || (live && !stock.sells(signal.index))) return notFound('signal_agent_segment_id')
      if (!Array.isArray(args.destinations) || args.destinations.length === 0) {
        return invalid('destinations must name at least one destination.', 'destinations')
      }
      const options = live ? stock.row(signal.index, 'public').pricing_options : undefined
      if (options?.every(({ pricing_option_id }) => pricing_option_id !== args.pricing_option_id)) {
        return invalid('pricing_option_id must be one of the signal.', 'pricing_option_id')
      }
      const stops: Stop[] = []
      for (const destination of args.destinations) {
        const stop = isDestination(destination) ? stopFor(profile, destination) : undefined
        if (stop === undefined) return invalid('Not delivered there.', 'destinations')
        stops.push(stop)
      }
      return switchDesks(signal, stops, live)
    })
  }

  function reportUsage(args: Args): Outcome {
    return once('report_usage', args, () => {
      if (!Array.isArray(args.usage) || args.usage.length === 0) return invalid('No usage rows.', 'usage')
      usageRows += args.usage.length
      return done({ accepted: args.usage.length, message: `${args.usage.length} usage rows accepted.` })
    })
  }

  return {
    activate,
    reportUsage,
    activations: () => activations,
    deactivations: () => deactivations,
    usageRows: () => usageRows,
  }
}
