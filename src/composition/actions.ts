/**
 * What an operator can do to a running server, to upstreams, providers, callers and open jobs. Each attempt is written down
 * with who, when and what came of it.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { shownUrl } from '../adcp/redaction.js'
import { agentUrlOf } from '../adcp/url.js'
import type { Providers } from '../authz/provider/providers.js'
import type { Held, Jobs } from '../store/jobs.js'
import type { Audit, Work } from '../store/records/activity.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { InForce, Overrides } from './running-config.js'

export const ACTIONS = [
  'refresh-upstream',
  'refresh-provider',
  'exclude-upstream',
  'admit-upstream',
  'suspend-caller',
  'resume-caller',
  'retry-job',
  'give-up-job',
] as const
type OperatorAction = (typeof ACTIONS)[number]

/** `until`: it holds until then, no longer. */
type Acted =
  | { kind: 'done'; until?: 'reload' }
  /** There is no such upstream, provider, caller or open job. */
  | { kind: 'unknown' }
  | { kind: 'refused'; reason: string }

type ActionsOptions = {
  inForce: InForce
  upstreams: Pick<Upstreams, 'refreshWhole' | 'roster'>
  providers: Pick<Providers, 'refresh' | 'state'>
  store: { jobs: Pick<Jobs, 'claim' | 'hasten'>; work: Pick<Work, 'openJob'>; audit: Audit }
  /** How a job of each kind is ended undone. */
  givingUp: Readonly<Record<string, (held: Held) => Promise<void>>>
  log: Logger
}

const MOST_SUBJECT = 2_048 // longer than any url
const HOLD_MS = 15_000 // to end a job takes a few writes
const DONE: Acted = { kind: 'done' }
const UNTIL_RELOAD: Acted = { kind: 'done', until: 'reload' }
const UNKNOWN: Acted = { kind: 'unknown' }
const BUSY: Acted = { kind: 'refused', reason: 'it is being worked on now' }
const WAITS: Acted = { kind: 'refused', reason: 'another job that changes the same is being worked on now' }

export function createActions(options: ActionsOptions) {
  const { inForce, upstreams, providers, store, givingUp, log } = options
  const { jobs, work, audit } = store
  // Whatever the level of other lines is; a log that is off stays off.
  const auditLog = log.child({ audit: true }, { level: log.isLevelEnabled('fatal') ? 'info' : 'silent' })

  function override(changed: Partial<Overrides>): Acted {
    inForce.override({ ...inForce.overrides(), ...changed })
    return UNTIL_RELOAD
  }

  /** Agents that operators left out, under the ids that they had: those go with them from the roster. */
  const leftOut = new Map<string, string>()

  /** By id, also of one that operators left out, or by the url of an agent, whoever leaves it out. */
  function agentOf(name: string): string | undefined {
    const { entries, excluded } = upstreams.roster()
    const known = entries.find(({ id }) => id === name)?.agentUrl ?? leftOut.get(name)
    const agentUrl = URL.canParse(name) ? agentUrlOf(name) : undefined
    const isThere = (url: string) => agentUrlOf(url) === agentUrl
    if (known !== undefined || agentUrl === undefined) return known
    return entries.some(({ url }) => isThere(url)) || excluded.some(({ url }) => isThere(url))
      ? agentUrl
      : undefined
  }

  function leaveOut(name: string, isOut: boolean): Acted {
    const agentUrl = agentOf(name)
    if (agentUrl === undefined) return UNKNOWN
    if (isOut) leftOut.set(name, agentUrl)
    return override({ excluded: new Map([...inForce.overrides().excluded, [agentUrl, isOut]]) })
  }

  function suspend(id: string, who: string, isOut: boolean): Acted {
    if (!inForce.file().callers.keys.some((key) => key.id === id)) return UNKNOWN
    if (id === who) return { kind: 'refused', reason: 'nobody suspends itself' }
    const suspended = new Set([...inForce.overrides().suspended, id])
    if (!isOut) suspended.delete(id)
    return override({ suspended })
  }

  /** Whichever process works on jobs of its kind takes it up within a second. */
  async function retry(id: string): Promise<Acted> {
    const job = await work.openJob(id)
    if (!job) return UNKNOWN
    if (job.isHeld) return BUSY
    await jobs.hasten([id])
    return DONE
  }

  async function giveUp(id: string): Promise<Acted> {
    const job = await work.openJob(id)
    const end = job && givingUp[job.kind]
    if (!end) return UNKNOWN
    if (job.isHeld) return BUSY
    const held = await jobs.claim(id, { owner: randomUUID(), ms: HOLD_MS }, { early: true })
    if (!held) return WAITS
    await end(held)
    return DONE
  }

  function act(action: OperatorAction, subject: string, who: string): Acted | Promise<Acted> {
    if (action === 'retry-job') return retry(subject)
    if (action === 'give-up-job') return giveUp(subject)
    if (action === 'refresh-upstream') return upstreams.refreshWhole(subject) ? DONE : UNKNOWN
    if (action === 'refresh-provider') {
      if (!providers.state(subject)) return UNKNOWN
      void providers.refresh(subject)
      return DONE
    }
    if (action === 'exclude-upstream') return leaveOut(subject, true)
    if (action === 'admit-upstream') return leaveOut(subject, false)
    return suspend(subject, who, action === 'suspend-caller')
  }

  return {
    /** Throws `StorageUnavailable` when the action was done but cannot be recorded. */
    async run(named: string, given: string, who: string): Promise<Acted> {
      const action = ACTIONS.find((one) => one === named)
      if (!action) return UNKNOWN
      const acted = await act(action, given, who)
      const subject = shownUrl(given.slice(0, MOST_SUBJECT))
      const outcome = acted.kind === 'refused' ? acted.reason : acted.kind
      auditLog.info({ who, action, subject, outcome }, 'an operator acted')
      await audit.note({ who, action, subject, outcome })
      return acted
    },
  }
}
