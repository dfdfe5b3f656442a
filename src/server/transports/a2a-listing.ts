/**
 * A listing of A2A tasks: which of them a caller wants to see, in which order, and where the next page goes on. It is made from
 * what is known of a task without its answer, because a caller has up to 2,000 tasks and a page shows few of them.
 */
import { hash } from 'node:crypto'

/** Where a task stands in a listing. */
export type Place = { id: string; at: number }

export type WantedTasks = {
  /** In the form that the facts have. */
  context?: string
  /** In the words of 1.0. */
  state?: string
  /** Ms since the epoch; tasks of that moment are wanted too. */
  since?: number
}

/** What a task is chosen by. `context`: its context's id, or the digest of it. */
type TaskFacts = { at: number; state: string; context: string }

/** Contexts are texts of callers, so other processes are told their digest only. */
export const contextDigest = (contextId: string) => hash('sha256', contextId, 'base64url')

export function isWanted({ at, state, context }: TaskFacts, wanted: WantedTasks): boolean {
  return (
    (wanted.state === undefined || wanted.state === state) &&
    (wanted.context === undefined || wanted.context === context) &&
    at >= (wanted.since ?? 0)
  )
}

/** The facts in a word for other processes. */
export const factsWord = ({ at, state, context }: TaskFacts) => `${at} ${state} ${context}`

export function factsFrom(word: string): TaskFacts {
  const [at, state = '', context = ''] = word.split(' ')
  return { at: Number(at), state, context }
}

/** Newest first; of one moment in an order that every process knows. */
export function inOrder(one: Place, other: Place): number {
  if (one.at !== other.at) return other.at - one.at
  return one.id < other.id ? 1 : one.id > other.id ? -1 : 0
}

/** A page goes on behind a place, also when the task that stood there has left. */
export const tokenOf = ({ at, id }: Place) => Buffer.from(`${at}|${id}`).toString('base64url')

/** Undefined when it is no token of ours. */
export function placeFrom(token: string): Place | undefined {
  const [, at, id] = /^(\d{1,15})\|([\w-]{1,64})$/.exec(Buffer.from(token, 'base64url').toString()) ?? []
  return id === undefined ? undefined : { id, at: Number(at) }
}
