/**
 * One signals agent of the demo market without its transport: the tasks by name, the protocol envelope around their
 * answers (docs/protocol.md#envelope), and the controls that tests turn.
 */
import type { AdcpError } from '../src/adcp/answer.js'
import { isRecord } from '../src/adcp/json.js'
import { createActivation } from './activation.js'
import { capabilitiesOf } from './capabilities.js'
import { createDiscovery } from './discovery.js'
import type { Market } from './market.js'
import { type Args, errorOf, invalid, type Outcome, type TaskState } from './outcome.js'
import { AGENTS, type AgentId, type Party } from './parties.js'
import { PROFILES } from './profiles.js'
import { createStock } from './stock.js'
import { createTaskBook } from './task-book.js'

export const TASKS = {
  get_adcp_capabilities: 'What this agent supports.',
  get_signals: 'Find signals, or read the whole feed.',
  activate_signal: 'Make a signal live on a destination, or deactivate it.',
  get_task_status: 'How far a submitted task is.',
  report_usage: 'Report what was delivered, for billing.',
} as const
export type TaskName = keyof typeof TASKS

/** The flat response; `failed` repeats what `status` says, for transports that mark failures. */
export type Answer = { failed: boolean; message: string; payload: Record<string, unknown> }

export type AgentControls = {
  url: string
  activations(): number
  deactivations(): number
  usageRows(): number
  /** Calls of one task, replays and refusals too. */
  calls(task: TaskName): number
  /** Raises all prices: the pricing version moves, and the feed version where the two are one. */
  reprice(): void
  /** Takes the last rows out of the feed. */
  withdraw(rows: number): void
  /** Briefs are answered `submitted` and take so long, ms; 0 ends it. */
  briefTakes(ms: number): void
  /** Every unfinished task is said to be so. */
  unfinishedTasksAre(state: TaskState): void
  /** The next answers of a task (default activate_signal) are lost after the work was done: the connection breaks. */
  loseAnswers(count: number, task?: TaskName): void
}

export type Agent = AgentControls & {
  party: Party
  call(task: string, args: unknown): Answer
  /** Whether this answer of the task is one of those to lose; asking counts. */
  losesAnswer(task: string): boolean
}

export type AgentOptions = { market: Market; id: AgentId; now: () => number; activationDelayMs: number }

const isTask = (name: string): name is TaskName => Object.hasOwn(TASKS, name)

function versionError({ adcp_version, adcp_major_version }: Args): AdcpError | undefined {
  const pinned = typeof adcp_version === 'string' && !adcp_version.startsWith('3.')
  if (!pinned && (adcp_major_version === undefined || adcp_major_version === 3)) return undefined
  return errorOf('VERSION_UNSUPPORTED', 'This agent speaks version 3.', {
    details: { supported_versions: ['3.0', '3.1'] },
  })
}

/** The agent with this id. */
export function createAgent({ market, id, now, activationDelayMs }: AgentOptions): Agent {
  const profile = PROFILES[id]
  const stock = createStock({ market, id, profile, now })
  const tasks = createTaskBook({ now })
  const discovery = createDiscovery({ market, id, profile, stock, tasks, now })
  const activation = createActivation({ profile, stock, tasks, now, delayMs: activationDelayMs })
  const counts = new Map<TaskName, number>()
  let contexts = 0
  let losing: { task: string; count: number } = { task: '', count: 0 }

  const work: Readonly<Record<TaskName, (args: Args) => Outcome>> = {
    get_adcp_capabilities: () => capabilitiesOf(market, id, profile),
    get_signals: discovery.getSignals,
    activate_signal: activation.activate,
    get_task_status: tasks.status,
    report_usage: activation.reportUsage,
  }

  function run(task: string, args: Args): Outcome {
    if (!isTask(task)) return invalid('There is no such task.')
    counts.set(task, (counts.get(task) ?? 0) + 1)
    const version = versionError(args)
    return version ? { kind: 'refused', error: version } : work[task](args)
  }

  function call(task: string, sent: unknown): Answer {
    const args: Args = isRecord(sent) ? sent : {}
    const outcome = run(task, args)
    contexts += 1
    const envelope = {
      context_id: typeof args.context_id === 'string' ? args.context_id : `ctx_${id}_${contexts}`,
      ...(isRecord(args.context) ? { context: args.context } : {}),
      ...(profile.release === '3.0' || args.adcp_version === '3.0' ? {} : { adcp_version: profile.release }),
    }
    if (outcome.kind === 'done') {
      const payload = { status: 'completed', ...outcome.body, ...envelope }
      return { failed: false, message: outcome.body.message, payload }
    }
    const { error } = outcome
    const payload = {
      status: 'failed',
      message: error.message,
      adcp_error: error,
      errors: [error],
      ...envelope,
    }
    return { failed: true, message: error.message, payload }
  }

  return {
    party: AGENTS[id],
    url: AGENTS[id].url,
    call,
    losesAnswer(task) {
      if (losing.task !== task || losing.count === 0) return false
      losing.count -= 1
      return true
    },
    activations: activation.activations,
    deactivations: activation.deactivations,
    usageRows: activation.usageRows,
    calls: (task) => counts.get(task) ?? 0,
    reprice: stock.reprice,
    withdraw: stock.withdraw,
    briefTakes: discovery.briefTakes,
    unfinishedTasksAre: tasks.unfinishedAre,
    loseAnswers(count, task = 'activate_signal') {
      losing = { task, count }
    },
  }
}
