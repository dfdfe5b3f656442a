/**
 * The registry listing as it is sent. What registries say of agents was written where it was read, and is not written again: the
 * thread that serves puts pieces together, however much they hold.
 */
import { writtenMembers } from '../../upstreams/rows/directory.js'
import type { Shown } from './listed-agents.js'

/** Registries that have not answered lately, and agents of the others that were not taken for want of room. */
type Missing = { silent: number; leftOut: number }

const [OPEN, CLOSE, NEXT] = [Buffer.from('{'), Buffer.from('}'), Buffer.from(',')]

/** Each written member begins with a comma, which separates it from those before it. */
function piecesOf({ own, listed }: Shown): Uint8Array[] {
  const said = listed ? writtenMembers(listed.from.directory, listed.from.at, listed.members) : []
  if (own) return [Buffer.from(JSON.stringify(own).slice(0, -1)), ...said, CLOSE]
  const [first = NEXT, ...rest] = said
  return [OPEN, first.subarray(1), ...rest, CLOSE]
}

/** The numbers only: the addresses of registries are the operator's business. */
function descriptionsOf({ silent, leftOut }: Missing): { description: string }[] {
  return [
    ...(silent > 0 ? [`Registries behind this one that have not answered lately: ${silent}`] : []),
    ...(leftOut > 0
      ? [`Agents of registries behind this one that are left out for want of room: ${leftOut}`]
      : []),
  ].map((description) => ({ description }))
}

export function writtenListing(agents: readonly Shown[], missing: Missing): Buffer {
  const incomplete = descriptionsOf(missing)
  const end = JSON.stringify({ count: agents.length, ...(incomplete.length > 0 && { incomplete }) })
  const written = agents.flatMap((agent, at) => (at === 0 ? piecesOf(agent) : [NEXT, ...piecesOf(agent)]))
  return Buffer.concat([Buffer.from('{"agents":['), ...written, Buffer.from(`],${end.slice(1)}`)])
}
