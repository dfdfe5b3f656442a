/** What a call of an upstream gives, for parts that are tested without one. */
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import type { CallOutcome } from '../../src/upstreams/upstreams.js'

/** A complete answer with these rows. */
export const briefAnswer = (rows: readonly object[]): CallOutcome => ({
  kind: 'answer',
  payload: { status: 'completed', signals: [] },
  rows: readRows(rows.map((row) => Buffer.from(JSON.stringify(row)))),
})
