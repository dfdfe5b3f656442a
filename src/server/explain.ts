/**
 * GET /explain?ref=...: why a signal or an upstream is, or is not, in the feed. For operators only: the answer names
 * upstreams, their troubles and what other callers see.
 */

import type { FastifyInstance } from 'fastify'
import type { Destination } from '../adcp/signal.js'
import { isObject } from '../upstreams/json.js'
import type { Door } from './door.js'

const MAX_REF = 4_096

export type ExplainQuestion = {
  ref: string
  /** Whose request misses the signal, and what it asks for. */
  caller?: string
  filters?: Readonly<Record<string, unknown>>
  destinations?: readonly Destination[]
  countries?: readonly string[]
}

export type ExplainAnswer = { kind: 'explained'; explanation: object } | { kind: 'no_caller'; caller: string }

type Bad = { error: string; parameter: string }
type Read = { kind: 'question'; question: ExplainQuestion } | { kind: 'bad'; problem: Bad }

function json(text: string | null): unknown {
  if (text === null) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return null // said by the caller, with what was expected
  }
}

function bad(parameter: string, expected: string): Read {
  return { kind: 'bad', problem: { error: `Invalid ${parameter}: expected ${expected}`, parameter } }
}

function isDestination(value: unknown): value is Destination {
  if (!isObject(value)) return false
  return typeof (value.type === 'agent' ? value.agent_url : value.platform) === 'string'
}

function read(params: URLSearchParams): Read {
  const ref = params.get('ref') ?? ''
  if (ref === '' || ref.length > MAX_REF) {
    return bad('ref', 'a handle, domain/signal_id, or the id or url of an upstream')
  }
  const caller = params.get('caller')
  const filters = json(params.get('filters'))
  if (filters !== undefined && !isObject(filters)) return bad('filters', 'a JSON object')
  const destinations = json(params.get('destinations'))
  if (destinations !== undefined && !(Array.isArray(destinations) && destinations.every(isDestination))) {
    return bad('destinations', 'a JSON list of destinations')
  }
  const countries = params.getAll('country').map((country) => country.toUpperCase())
  return {
    kind: 'question',
    question: {
      ref,
      ...(caller !== null && { caller }),
      ...(filters && { filters }),
      ...(destinations && { destinations: destinations as Destination[] }),
      ...(countries.length > 0 && { countries }),
    },
  }
}

export type ExplainOptions = { door: Door; explain(question: ExplainQuestion): Promise<ExplainAnswer> }

export function addExplain(app: FastifyInstance, { door, explain }: ExplainOptions): void {
  app.get('/explain', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await door.enter(request)
    if (who.kind === 'turned_away') {
      return reply
        .code(who.status)
        .headers(who.headers ?? {})
        .send({ error: who.message })
    }
    if (who.kind !== 'caller' || who.caller.role !== 'operator') {
      return reply.code(403).send({ error: 'This needs a key with role: operator' })
    }
    const asked = read(new URL(request.url, 'http://localhost').searchParams)
    if (asked.kind === 'bad') return reply.code(400).send(asked.problem)
    const answer = await explain(asked.question)
    if (answer.kind === 'explained') return answer.explanation
    const problem = {
      error: 'Invalid caller: no caller of the configuration has this id',
      parameter: 'caller',
    }
    return reply.code(400).send(problem)
  })
}
