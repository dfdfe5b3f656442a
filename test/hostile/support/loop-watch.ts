/**
 * Loaded into the process under attack (`node --import`): tells its parent of each long stop of the serving thread, how
 * much of it the process itself brought about, and what the thread was doing. On a busy machine a thread also stands
 * still while other processes run.
 */
import { type InspectorNotification, type Profiler, Session } from 'node:inspector'
import { availableParallelism } from 'node:os'
import { isMainThread } from 'node:worker_threads'
import { threadMs } from '../../support/thread-time.js'

/** A stop of the serving thread, ms. */
export type Stop = {
  wallMs: number
  /**
   * What it would at least have been without other processes: what the thread computed, or, where that is more, what
   * the whole process computed on all processors, for which the thread may have waited.
   */
  ownMs: number
  /** What the thread computed (Linux; else 0). */
  cpuMs: number
  /** Where it was, most first: share of the samples and the innermost frames. */
  stacks: string[]
}

const EVERY_MS = 5
const NOTABLE_MS = 40
const SAMPLE_US = 2_000
const ROTATE_MS = 20_000 // a profile is forgotten after this time: it grows
const FRAMES = 9
const MOST_STACKS = 4

/** Ms that the process has computed, all threads together. */
function processMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function frameOf({ functionName, url, lineNumber }: Profiler.ProfileNode['callFrame']): string {
  const place = url ? ` ${url.split('/').slice(-2).join('/')}:${lineNumber + 1}` : ''
  return `${functionName || '(anonymous)'}${place}`
}

/** The innermost frames of what was sampled in the last `lastMs`, most first. */
function stacksOf({ nodes, samples = [], timeDeltas = [], endTime }: Profiler.Profile, lastMs: number) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])))
  const counts = new Map<string, number>()
  let at = endTime
  let seen = 0
  for (let one = samples.length - 1; one >= 0 && at > endTime - lastMs * 1_000; one -= 1) {
    at -= timeDeltas[one] ?? 0
    const frames: string[] = []
    for (let id = samples[one]; id !== undefined && frames.length < FRAMES; id = parents.get(id)) {
      const node = byId.get(id)
      if (node) frames.push(frameOf(node.callFrame))
    }
    const stack = frames.join(' < ')
    counts.set(stack, (counts.get(stack) ?? 0) + 1)
    seen += 1
  }
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .slice(0, MOST_STACKS)
    .map(([stack, count]) => `${Math.round((100 * count) / seen)} % ${stack}`)
}

function watch(): void {
  const session = new Session()
  session.connect()
  const post = (method: string, params?: object) => {
    let given: unknown
    session.post(method as InspectorNotification<object>['method'], params, (_, result) => {
      given = result // in one process the answer is there at once
    })
    return given
  }
  post('Profiler.enable')
  post('Profiler.setSamplingInterval', { interval: SAMPLE_US })
  post('Profiler.start')
  let rotatedAt = performance.now()
  let [last, thread, all] = [performance.now(), threadMs(), processMs()]
  const timer = setInterval(() => {
    const wallMs = performance.now() - last - EVERY_MS
    if (wallMs >= NOTABLE_MS || last - rotatedAt > ROTATE_MS) {
      const cpuMs = threadMs() - thread
      const ownMs = Math.min(wallMs, Math.max(cpuMs, (processMs() - all) / availableParallelism()))
      const { profile } = post('Profiler.stop') as { profile: Profiler.Profile }
      if (wallMs >= NOTABLE_MS) {
        process.send?.({ wallMs, ownMs, cpuMs, stacks: stacksOf(profile, wallMs) } satisfies Stop)
      }
      post('Profiler.start')
      rotatedAt = performance.now()
    }
    ;[last, thread, all] = [performance.now(), threadMs(), processMs()]
  }, EVERY_MS)
  timer.unref()
}

if (isMainThread && process.send) watch()
