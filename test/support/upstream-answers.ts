/** What a call of an upstream gives, for parts that are tested without one. */
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'

/** A complete answer with these rows. */
export const briefAnswer = (rows: readonly object[]): AgentOutcome => ({
  kind: 'answer',
  payload: { status: 'completed', signals: [] },
  rows: readRows(rows.map((row) => Buffer.from(JSON.stringify(row)))),
})
