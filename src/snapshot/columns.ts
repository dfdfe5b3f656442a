/**
 * What a snapshot knows about its signals besides their bytes: columns of numbers in shared memory, and lists of words. A
 * worker fills them and the serving thread reads the same memory (docs/decisions.md#memory-and-threads: columns filter 1M
 * rows in 1 ms). The table declares every column once: it decides what a snapshot holds, how a build writes and joins it,
 * what is on disk and what counts as memory. A new column is a line in it and one in the draft.
 *
 * A build fills them by index. They have room for a number of signals, deployments and offers; once one of these needs more, its
 * columns are copied into twice the memory. Room is looked for once a signal, and not for each value that it has in more than thirty
 * columns.
 */

import { WORDS } from '../merge/keys.js'
import { f64, type Maker, type Numbers, u8, u16, u32 } from '../process/shared-memory.js'

const GROWTH = 2 // of columns that are full

/**
 * Numbers for words: a column holds the number, and the list holds each word once. `first` are in the list from the
 * beginning.
 */
function createWords(first: readonly string[] = []) {
  const list = [...first]
  const ids = new Map(list.map((word, id) => [word, id]))

  function id(word: string): number {
    const known = ids.get(word)
    if (known !== undefined) return known
    ids.set(word, list.length)
    return list.push(word) - 1
  }

  return { id, list: list as readonly string[] }
}

/** What an entry has several of. */
type Child = 'deployments' | 'offers'

/** Numbers that a build writes. */
type Values<T extends Numbers = Numbers> = {
  readonly kind: 'values'
  readonly make: Maker<T>
  /** What has a value in the column: each entry of the snapshot, or each of an entry's children. */
  readonly of: 'entry' | Child
  /** How many numbers make one value. */
  readonly width: number
  /** The list that the numbers point into. */
  readonly list?: ListName
}
/** Where each entry's children begin in their columns; the last number is the count of all children. */
type Starts = { readonly kind: 'starts'; readonly make: Maker<Uint32Array>; readonly of: Child }
/** Words behind the numbers of other columns. The first `fixed` are kept whether they are used or not. */
type WordList = { readonly kind: 'list'; readonly fixed: number }
/** Numbers that are derived from the other columns, once these are complete. */
type Derived<T extends Numbers = Numbers> = { readonly kind: 'derived'; readonly make: Maker<T> }

export type Spec = Values | Starts | WordList | Derived
/** Groups of columns; `kind` tells a spec from a group. */
type Table = { readonly [name: string]: Spec | { readonly [name: string]: Spec } }

type ListName = 'facts.providers' | 'facts.domains' | 'facts.countrySets' | 'deployments.destinations'

const entry = <T extends Numbers>(make: Maker<T>, width = 1): Values<T> => {
  return { kind: 'values', make, of: 'entry', width }
}
const child = <T extends Numbers>(of: Child, make: Maker<T>, width = 1): Values<T> => {
  return { kind: 'values', make, of, width }
}
const starts = (of: Child): Starts => ({ kind: 'starts', make: u32, of })
const numbering = (list: ListName, of: Values['of'] = 'entry'): Values<Uint32Array> => {
  return { kind: 'values', make: u32, of, width: 1, list }
}
const derived = <T extends Numbers>(make: Maker<T>): Derived<T> => ({ kind: 'derived', make })
/** A list whose first word is the empty one, which means none. */
const WORDS_OR_NONE: WordList = { kind: 'list', fixed: 1 }
const ONLY_WORDS: WordList = { kind: 'list', fixed: 0 }

/** What a build writes for the signals that it merges, and joins with the columns of the previous snapshot. */
export const WRITTEN = {
  keys: entry(u32, WORDS),
  /** Each row in a chunk ends with a comma, so that consecutive rows can be sent as one piece. */
  rows: {
    chunkOf: entry(u16),
    start: entry(u32),
    /** Bytes up to the prices, without a closing brace (merge/row.ts, Row). */
    head: entry(u32),
    /** All bytes; 0 when the signal is withheld. */
    length: entry(u32),
    /** Where readers' choices begin (merge/row.ts, RowPlaces). */
    fields: entry(u32),
    deployments: entry(u32),
  },
  /** The values that filters read, one number per signal. */
  facts: {
    /** Index into SIGNAL_TYPES. */
    type: entry(u8),
    /** Index into VALUE_TYPES plus 1; 0 when not stated. */
    valueType: entry(u8),
    provider: numbering('facts.providers'),
    domain: numbering('facts.domains'),
    /** 0: no bound. */
    countries: numbering('facts.countrySets'),
    /** 1 when its offers differ in their countries. */
    mixed: entry(u8),
    /** 1 when one of its offers lists no deployment, and so may be asked for any destination. */
    anywhere: entry(u8),
    /** NaN: not stated. */
    coverage: entry(f64),
    cpm: entry(f64),
    percent: entry(f64),
    /** The currency of `cpm` (merge/row.ts). */
    currency: entry(u32),
    providers: WORDS_OR_NONE,
    domains: WORDS_OR_NONE,
    /** Comma-joined. */
    countrySets: WORDS_OR_NONE,
  },
  /** Deployments of entry `i` are `at[i]` to `at[i + 1]`, in the order in which its row names them. */
  deployments: {
    at: starts('deployments'),
    destination: numbering('deployments.destinations', 'deployments'),
    /** The digest of its state and the offers that give it (snapshot/digests.ts). */
    words: child('deployments', u32, WORDS),
    /** The digest of its activation key; 0 0 when it has none. */
    key: child('deployments', u32, 2),
    /** Where that key stands: which of the signal's offers, and where in its listing. No bytes: it has to be parsed. */
    keyOffer: child('deployments', u16),
    keyStart: child('deployments', u32),
    keyBytes: child('deployments', u16),
    destinations: ONLY_WORDS,
  },
  /** Offers of entry `i` are `at[i]` to `at[i + 1]`. */
  offers: {
    at: starts('offers'),
    /** Where its listing is: the index of the slice in `slices`, and the row in it. */
    slice: child('offers', u16),
    row: child('offers', u32),
    /** 1 when it is part of its signal's row. */
    stands: child('offers', u8),
    /** The countries in which it may be used. */
    countries: numbering('facts.countrySets', 'offers'),
  },
  /** Hashes of a signal's head, its head without deployments, and its prices (snapshot/digests.ts). */
  digests: {
    structure: entry(u32, WORDS),
    core: entry(u32, WORDS),
    pricing: entry(u32, WORDS),
  },
} satisfies Table

/** All columns. */
export const TABLE = {
  ...WRITTEN,
  /** Entries that have a row, in order. */
  shown: derived(u32),
  /** Digests of buckets of signals, by the first bits of their key: a change rehashes only the buckets it touches. */
  tree: { structure: derived(u8), pricing: derived(u8), unseen: derived(u8) },
} satisfies Table

type ValueOf<S> = S extends { make: Maker<infer T> } ? T : S extends WordList ? readonly string[] : Filled<S>

/** The columns and lists of a table. */
export type Filled<T> = { readonly [Name in keyof T]: ValueOf<T[Name]> }

/** The bytes of rows, and where each row is in them. */
export type Rows = Filled<typeof TABLE.rows> & { readonly chunks: readonly Uint8Array[] }

const isSpec = (at: Table[string]): at is Spec => typeof at.kind === 'string'

/** Each spec with its path, in the table's order: `keys`, `facts.provider`. */
export function specsOf(table: Table): [path: string, spec: Spec][] {
  return Object.entries(table).flatMap(([name, member]): [string, Spec][] => {
    if (isSpec(member)) return [[name, member]]
    return Object.entries(member).map(([of, spec]) => [`${name}.${of}`, spec])
  })
}

/** The lists of a table, in its order. */
export function listsOf(table: Table): [path: string, spec: WordList][] {
  return specsOf(table).flatMap(([path, spec]): [string, WordList][] => {
    return spec.kind === 'list' ? [[path, spec]] : []
  })
}

/** The value of `holder` at a path. */
export function valueAt(holder: object, path: string): unknown {
  return path.split('.').reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], holder)
}

/** The table with each spec replaced by a value. */
export function filled(table: Table, value: (path: string, spec: Spec) => unknown): Record<string, unknown> {
  const whole: Record<string, unknown> = {}
  for (const [path, spec] of specsOf(table)) {
    const [group = '', member] = path.split('.')
    if (member === undefined) whole[group] = value(path, spec)
    else whole[group] = { ...(whole[group] as object | undefined), [member]: value(path, spec) }
  }
  return whole
}

/** The columns of `holder` for a table, in the table's order and without its lists. */
export function columnsOf(table: Table, holder: object): Numbers[] {
  const columns = specsOf(table).filter(([, { kind }]) => kind !== 'list')
  return columns.map(([path]) => valueAt(holder, path) as Numbers)
}

/** How many signals there are, and how many deployments and offers all of them have. */
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

/** A column of this length with the values of `from`, as many as it has room for; `from` itself where that is as long. */
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
