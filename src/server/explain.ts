/**
 * GET /explain?ref=...: why a signal or an upstream is, or is not, in the feed. For operators only: the answer names
 * upstreams, their troubles and what other callers see.
 */

import type { FastifyInstance } from 'fastify'
import { tryParseJson } from '../adcp/json.js'
import { GetSignalsRequest, selectionOf } from '../adcp/requests/get-signals.js'
import type { Destination } from '../adcp/signal.js'
import { Type } from '../adcp/type.js'
import { compileCheck, fieldOf } from '../adcp/validation.js'
import { type Door, enterOperator, refusePlainly } from './door/door.js'

const MAX_REF = 4_096

type ExplainQuestion = {
  ref: string
  /** Whose request misses the signal, and what it asks for. */
  caller?: string
  account?: string
  filters?: Readonly<Record<string, unknown>>
  destinations?: readonly Destination[]
  countries?: readonly string[]
}

type ExplainAnswer =
  | { kind: 'explained'; explanation: object }
  | { kind: 'no_caller'; caller: string }
  | { kind: 'no_account'; account: string }

type Bad = { error: string; parameter: string }
type Read = { kind: 'question'; question: ExplainQuestion } | { kind: 'bad'; problem: Bad }

/** What a get_signals request may ask, by the same rules. */
const checkSelection = compileCheck(Type.Pick(GetSignalsRequest, ['filters', 'destinations', 'countries']))

/** The parameter's JSON; a text that is not JSON is passed on as it is, and the check refuses it. */
function json(text: string): unknown {
  return tryParseJson(Buffer.from(text)) ?? text
}

function bad(parameter: string, expected: string): Read {
  return { kind: 'bad', problem: { error: `Invalid ${parameter}: ${expected}`, parameter } }
}

function read(params: URLSearchParams): Read {
  const ref = params.get('ref') ?? ''
  if (ref === '' || ref.length > MAX_REF) {
    return bad('ref', 'expected a handle, domain/signal_id, or the id or url of an upstream')
  }
  const caller = params.get('caller')
  const account = params.get('account')
  const filters = params.get('filters')
  const destinations = params.get('destinations')
  const countries = params.getAll('country').map((country) => country.toUpperCase())
  const selection = checkSelection({
    ...(filters !== null && { filters: json(filters) }),
    ...(destinations !== null && { destinations: json(destinations) }),
    ...(countries.length > 0 && { countries }),
  })
  if (!selection.ok) {
    const [{ pointer, message } = { pointer: '', message: 'is not valid' }] = selection.issues
    return bad(pointer.split('/')[1] ?? 'query', `${fieldOf(pointer)} ${message}`)
  }
  return {
    kind: 'question',
    question: {
      ref,
      ...(caller !== null && { caller }),
      ...(account !== null && { account }),
      ...selectionOf(selection.value),
    },
  }
}

const UNKNOWN: Record<'no_caller' | 'no_account', Bad> = {
  no_caller: { error: 'Invalid caller: no caller of the configuration has this id', parameter: 'caller' },
  no_account: { error: 'Invalid account: the caller has no account of this id', parameter: 'account' },
}

export type ExplainOptions = { door: Door; explain(question: ExplainQuestion): Promise<ExplainAnswer> }

export function addExplain(app: FastifyInstance, { door, explain }: ExplainOptions): void {
  app.get('/explain', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const who = await enterOperator(door, request)
    if (who.kind === 'turned_away') return refusePlainly(reply, who)
    const asked = read(new URL(request.url, 'http://localhost').searchParams)
    if (asked.kind === 'bad') return reply.code(400).send(asked.problem)
    const answer = await explain(asked.question)
    if (answer.kind === 'explained') return answer.explanation
    return reply.code(400).send(UNKNOWN[answer.kind])
  })
}
