/**
 * The pieces of which a row is put together from a listing's own text: its members, and what is remembered of their values.
 * Millions of rows go through here.
 */
import type { SignalRow } from '../adcp/signal.js'
import type { Memory } from '../process/remembered.js'
import type { Members } from '../upstreams/rows/written.js'

/** An offer of these members alone, which is authorized: what is remembered of a value depends on no other. */
export const offerOnlyOf = (members: Partial<SignalRow>) => ({
  listing: members as SignalRow,
  upstream: '',
  verdict: { outcome: 'authorized', entries: [] } as const,
})

/** One piece of memory: what a template gives is a tree of its parts, which is walked through whenever it is written. */
export const flatText = (...parts: string[]) => parts.join('')

/** A field as a member of a row, after a comma. */
export const writtenMember = (field: string, json: string) => flatText(',"', field, '":', json)

/** A member of a listing by what is remembered of its value. */
export const recalled = <T>(
  known: (memory: Memory, start: number, end: number) => T,
  members: Members,
  place: number,
) => known(members.memory, members.starts[place] as number, members.ends[place] as number)

/** Members as they follow others: after a comma, unless there are none. */
export const afterComma = (members: string) => (members === '' ? '' : `,${members}`)
