/**
 * What an operator can do to a running server, to upstreams, providers, callers and open jobs. Each attempt is written down
 * with who, when and what comes of it, before anything is done: what cannot be written down is not done.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { shownUrl } from '../adcp/redaction.js'
import { holdsCredential } from '../adcp/url.js'
import type { Providers } from '../authz/provider/providers.js'
import { leftOutText } from '../explain/remedies.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { Held, Jobs } from '../store/jobs.js'
import type { Audit, Work } from '../store/records/activity.js'
import { agentMeant } from '../upstreams/roster/roster.js'
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

/** What would come of an action; `deed`: what it does, absent when it does nothing. It gives what came of it where that is told better. */
type Plan = { acted: Acted; deed?: () => Acted | void | Promise<void> }

const UNKNOWN: Plan = { acted: { kind: 'unknown' } }
const refused = (reason: string): Plan => ({ acted: { kind: 'refused', reason } })
const BUSY = refused('it is being worked on now')
const WAITS = refused('another job that changes the same is being worked on now')
const once = (deed: () => void | Promise<void>): Plan => ({ acted: { kind: 'done' }, deed })
const untilReload = (deed: () => void): Plan => ({ acted: { kind: 'done', until: 'reload' }, deed })

export function createActions(options: ActionsOptions) {
  const { inForce, upstreams, providers, store, givingUp, log } = options
  const { jobs, work, audit } = store
  // Whatever the level of other lines is; a log that is off stays off.
  const auditLog = log.child({ audit: true }, { level: log.isLevelEnabled('fatal') ? 'info' : 'silent' })

  const override = (changed: Partial<Overrides>) => inForce.override({ ...inForce.overrides(), ...changed })

  /** Agents that operators left out, under the ids that they had: those go with them from the roster. */
  const leftOut = new Map<string, string>()

  /** By id, also of one that operators left out, or by the url of an agent, whoever leaves it out. */
  function agentOf(name: string): string | undefined {
    const roster = upstreams.roster()
    const known = roster.entries.find(({ id }) => id === name)?.agentUrl ?? leftOut.get(name)
    return known ?? agentMeant(name, roster)
  }

  function leaveOut(name: string, isOut: boolean): Plan {
    const agentUrl = agentOf(name)
    if (agentUrl === undefined) return UNKNOWN
    if (holdsCredential(agentUrl)) return refused(leftOutText('secret_in_url'))
    if (!isOut) return { acted: { kind: 'done' }, deed: () => admit(agentUrl) }
    return untilReload(() => {
      override({ excluded: new Map([...inForce.overrides().excluded, [agentUrl, true]]) })
      leftOut.set(name, agentUrl)
    })
  }

  /** Takes back what an operator left out. Where the configuration leaves it out, it is let in until that is read again. */
  function admit(agentUrl: string): Acted {
    const { excluded } = inForce.overrides()
    if (excluded.get(agentUrl) === true) {
      override({ excluded: new Map([...excluded].filter(([url]) => url !== agentUrl)) })
    }
    const isIn = upstreams.roster().entries.some((entry) => entry.agentUrl === agentUrl)
    if (isIn && !inForce.overrides().excluded.has(agentUrl)) return { kind: 'done' }
    override({ excluded: new Map([...inForce.overrides().excluded, [agentUrl, false]]) })
    return { kind: 'done', until: 'reload' }
  }

  function suspend(id: string, who: string, isOut: boolean): Plan {
    if (!inForce.file().callers.keys.some((key) => key.id === id)) return UNKNOWN
    if (id === who) return refused('nobody suspends itself')
    return (isOut ? untilReload : once)(() => {
      const suspended = new Set([...inForce.overrides().suspended, id])
      if (!isOut) suspended.delete(id)
      override({ suspended })
    })
  }

  /** Whichever process works on jobs of its kind takes it up within a second. */
  async function retry(id: string): Promise<Plan> {
    const job = await work.openJob(id)
    if (!job) return UNKNOWN
    return job.isHeld ? BUSY : once(() => jobs.hasten([id]))
  }

  async function giveUp(id: string): Promise<Plan> {
    const job = await work.openJob(id)
    const end = job && givingUp[job.kind]
    if (!end) return UNKNOWN
    if (job.isHeld) return BUSY
    const held = await jobs.claim(id, { owner: randomUUID(), ms: HOLD_MS }, { early: true })
    return held ? once(() => end(held)) : WAITS
  }

  function refreshProvider(domain: string): Plan {
    return providers.state(domain) ? once(() => void providers.refresh(domain)) : UNKNOWN
  }

  function refreshUpstream(id: string): Plan {
    const isKnown = upstreams.roster().entries.some((entry) => entry.id === id)
    return isKnown ? once(() => void upstreams.refreshWhole(id)) : UNKNOWN
  }

  function plan(action: OperatorAction, subject: string, who: string): Plan | Promise<Plan> {
    if (action === 'retry-job') return retry(subject)
    if (action === 'give-up-job') return giveUp(subject)
    if (action === 'refresh-upstream') return refreshUpstream(subject)
    if (action === 'refresh-provider') return refreshProvider(subject)
    if (action === 'exclude-upstream') return leaveOut(subject, true)
    if (action === 'admit-upstream') return leaveOut(subject, false)
    return suspend(subject, who, action === 'suspend-caller')
  }

  type Attempt = { who: string; action: OperatorAction; subject: string }

  /** Rejects with `StorageUnavailable` when it cannot be written down. */
  async function note(attempt: Attempt, outcome: string): Promise<void> {
    await audit.note({ ...attempt, outcome })
    auditLog.info({ ...attempt, outcome }, 'an operator acted')
  }

  /** The same where it changes nothing whether it can be. */
  async function tryNote(attempt: Attempt, outcome: string): Promise<void> {
    await note(attempt, outcome).catch((error: unknown) => {
      if (!(error instanceof StorageUnavailable)) throw error
      auditLog.info({ ...attempt, outcome }, 'an operator acted, and it cannot be written down')
    })
  }

  return {
    /**
     * Throws `StorageUnavailable` when it cannot be written down, or done, for want of storage. Then nothing was done, unless only
     * the storage's answer was lost.
     */
    async run(named: string, given: string, who: string): Promise<Acted> {
      const action = ACTIONS.find((one) => one === named)
      if (!action) return UNKNOWN.acted
      const { acted, deed } = await plan(action, given, who)
      const attempt = { who, action, subject: shownUrl(given.slice(0, MOST_SUBJECT)) }
      const outcome = acted.kind === 'refused' ? acted.reason : acted.kind
      if (!deed) {
        await tryNote(attempt, outcome)
        return acted
      }
      await note(attempt, outcome)
      try {
        return (await deed()) ?? acted
      } catch (error) {
        await tryNote(attempt, 'it could not be done')
        throw error
      }
    },
  }
}
