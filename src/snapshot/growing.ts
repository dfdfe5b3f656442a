/**
 * The columns that a build fills, by index: with room for a number of signals, deployments and offers, and for twice as many once
 * that was too little. A signal has some 45 values in 25 columns.
 */
import type { Maker, Numbers } from '../process/column.js'
import { createWords, type Filled, filled, type Spec, valueAt, type WordList, WRITTEN } from './columns.js'

const GROWTH = 2 // of columns that are full

/** How many there are: signals, and of what they have several of. */
export type Extent = { entry: number; deployments: number; offers: number }

type WordWriter = ReturnType<typeof createWords>
type GrowingOf<S> = S extends { make: Maker<infer T> }
  ? T
  : S extends WordList
    ? WordWriter
    : { readonly [Name in keyof S]: GrowingOf<S[Name]> }

/** The columns, and in place of each list what numbers its words. */
export type Growing = GrowingOf<typeof WRITTEN>

function lengthOf(spec: Exclude<Spec, WordList>, extent: Extent): number {
  if (spec.kind === 'starts') return extent.entry + 1
  return spec.kind === 'values' ? extent[spec.of] * spec.width : 0
}

/** The values of a column, as far as there is room for them, in memory of that length. */
function sized(make: Maker<Numbers>, length: number, from: Numbers | undefined): Numbers {
  if (from?.length === length) return from
  const column = make(length)
  if (from) column.set(from.subarray(0, length))
  return column
}

/** The columns with room for so many, and the values of those before. */
function withRoom(extent: Extent, before?: Growing): Growing {
  return filled(WRITTEN, (path, spec) => {
    const there = before && valueAt(before, path)
    if (spec.kind === 'list') return there ?? createWords(spec.fixed === 0 ? [] : [''])
    return sized(spec.make as Maker<Numbers>, lengthOf(spec, extent), there as Numbers | undefined)
  }) as Growing
}

/** `expected`: a guess of how many signals there will be. */
export function createGrowing(expected: number) {
  const room: Extent = { entry: expected, deployments: expected, offers: expected }
  let growing = withRoom(room)

  /** The columns, with room for at least so many. */
  function roomFor({ entry, deployments, offers }: Extent): Growing {
    if (entry <= room.entry && deployments <= room.deployments && offers <= room.offers) return growing
    if (entry > room.entry) room.entry = entry * GROWTH
    if (deployments > room.deployments) room.deployments = deployments * GROWTH
    if (offers > room.offers) room.offers = offers * GROWTH
    growing = withRoom(room, growing)
    return growing
  }

  /** The columns, in memory of exactly their size. */
  function finish(extent: Extent): Filled<typeof WRITTEN> {
    const exact = withRoom(extent, growing)
    return filled(WRITTEN, (path, { kind }) => {
      const value = valueAt(exact, path)
      return kind === 'list' ? (value as WordWriter).list : value
    }) as Filled<typeof WRITTEN>
  }

  return { roomFor, finish }
}
