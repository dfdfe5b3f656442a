/** What operators do, over HTTP: one path for every action, and the log of what was done. */
import type { FastifyInstance } from 'fastify'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { AuditEntry } from '../store/records/audit.js'
import type { Entrance } from './entrance.js'

const MOST_SHOWN = 500 // entries of the log

export type ActionRoutesOptions = {
  entrance: Entrance
  /** Names of all actions. */
  actions: readonly string[]
  /**
   * Does `action` to `subject` for the caller `who`. `until: 'reload'`: it holds until the configuration is read again.
   * `unknown`: nothing is called `subject`.
   */
  act(
    action: string,
    subject: string,
    who: string,
  ): Promise<{ kind: 'done'; until?: string } | { kind: 'unknown' } | { kind: 'refused'; reason: string }>
  audit: { last(limit: number): Promise<(AuditEntry & { at: number })[]> }
}

/** `POST /console/api/actions` and `GET /console/api/audit`, for operators (docs/console.md). */
export function addActionRoutes(
  app: FastifyInstance,
  { entrance, actions, act, audit }: ActionRoutesOptions,
): void {
  app.post(
    '/console/api/actions',
    entrance.forOperators(async ({ caller }, { body }, reply) => {
      const given = body instanceof Uint8Array ? tryParseJson(body) : undefined
      const { action, subject } = isRecord(given) ? given : {}
      const bad = (parameter: string, expected: string) =>
        reply.code(400).send({ error: `Invalid ${parameter}: expected ${expected}`, parameter })
      if (typeof action !== 'string' || !actions.includes(action))
        return bad('action', `one of ${actions.join(', ')}`)
      if (typeof subject !== 'string' || subject === '') return bad('subject', 'what it is to be done to')
      const acted = await act(action, subject, caller.id)
      if (acted.kind === 'unknown') {
        return reply.code(404).send({ error: 'Invalid subject: nothing has this name', parameter: 'subject' })
      }
      if (acted.kind === 'refused') return reply.code(409).send({ error: acted.reason })
      return { action, subject, ...(acted.until !== undefined && { until: acted.until }) }
    }),
  )

  app.get(
    '/console/api/audit',
    entrance.forOperators(async () => ({
      entries: (await audit.last(MOST_SHOWN)).map(({ at, ...entry }) => ({
        at: new Date(at).toISOString(),
        ...entry,
      })),
    })),
  )
}
