/**
 * The context of one call. A class for its one lazy member: a getter in an object literal makes a hidden class each
 * time, which costs a microsecond and old-space garbage on every call of the hot path.
 */

import type { Caller } from '../../adcp/caller.js'
import type { Release } from '../../adcp/version.js'
import type { CallContext } from '../../tasks/task.js'

/** What the transport knows of a call. */
export type CallOrigin = {
  readonly transport: 'mcp' | 'a2a'
  readonly requestId: string
  readonly comesAgain: boolean
  /** Made only when a task asks for it. */
  readonly signal: () => AbortSignal
}

export class Context implements CallContext {
  readonly transport: 'mcp' | 'a2a'
  readonly requestId: string
  readonly comesAgain: boolean
  readonly #origin: CallOrigin
  #signal: AbortSignal | undefined

  constructor(
    readonly caller: Caller,
    readonly release: Release,
    readonly now: number,
    readonly deadline: number,
    readonly contextId: string,
    origin: CallOrigin,
  ) {
    this.transport = origin.transport
    this.requestId = origin.requestId
    this.comesAgain = origin.comesAgain
    this.#origin = origin
  }

  get signal(): AbortSignal {
    this.#signal ??= this.#origin.signal()
    return this.#signal
  }
}
