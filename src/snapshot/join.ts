/** The columns of the snapshot before and those of the signals merged now, as the columns of one snapshot. */
import { type Maker, mapped, type Numbers, u16 } from './columns.js'
import type { Columns } from './draft.js'
import { unworn } from './row-chunks.js'
import type { Rows, Snapshot } from './snapshot.js'
import { filled, listsOf, type Spec, specsOf, valueAt, WRITTEN } from './table.js'
import { childWeave, type Weave, woven, wovenAt } from './weave.js'
import { joinWords, tidied } from './words.js'

type List = readonly string[]

const SPECS = specsOf(WRITTEN)
const LISTS = listsOf(WRITTEN)

/** New rows lie in chunks behind those of the snapshot before. */
function behind(previous: Rows, patch: Rows): Rows {
  const before = previous.chunks.length
  const chunkOf = mapped(u16, patch.chunkOf, (chunk, entry) => (patch.length[entry] ? chunk + before : 0))
  return { ...patch, chunkOf }
}

/** Words that the new signals brought may have left others without a use. */
function tidy(values: Map<string, unknown>, name: string, list: List, fixed: number): void {
  const users = SPECS.filter(([, spec]) => spec.kind === 'values' && spec.list === name)
  const columns = users.map(([path]) => values.get(path) as Uint32Array)
  const [kept, renumbered] = tidied(list, columns, fixed)
  values.set(name, kept)
  users.forEach(([path], at) => {
    values.set(path, renumbered[at])
  })
}

/** `offers`: those of the snapshot before, in the numbering of the new one's slices. */
export function joined(previous: Columns, offers: Snapshot['offers'], patch: Columns, weave: Weave): Columns {
  const old = { ...previous, offers }
  const added = { ...patch, rows: behind(previous.rows, patch.rows) }
  const children = {
    deployments: childWeave(weave, old.deployments.at, patch.deployments.at),
    offers: childWeave(weave, offers.at, patch.offers.at),
  }
  const lists = new Map(
    LISTS.map(([path]) => [path, joinWords(valueAt(old, path) as List, valueAt(added, path) as List)]),
  )
  const values = new Map<string, unknown>()

  function join(path: string, spec: Spec): Numbers {
    const before = valueAt(old, path) as Uint32Array
    const now = valueAt(added, path) as Uint32Array
    if (spec.kind === 'starts') return wovenAt(before, now, weave, children[spec.of])
    if (spec.kind !== 'values') throw new TypeError(`${path} is not a column that a build writes`)
    const by = spec.of === 'entry' ? weave : children[spec.of]
    const renumbered = (spec.list && lists.get(spec.list)?.renumbered(now)) ?? now
    return woven(spec.make as Maker<Uint32Array>, before, renumbered, by, spec.width)
  }

  for (const [path, spec] of SPECS) if (spec.kind !== 'list') values.set(path, join(path, spec))
  for (const [path, { fixed }] of LISTS) {
    const list = lists.get(path)?.list ?? []
    if (list === valueAt(old, path)) values.set(path, list)
    else tidy(values, path, list, fixed)
  }
  const columns = filled(WRITTEN, (path) => values.get(path)) as Columns
  const rows = { ...columns.rows, chunks: [...previous.rows.chunks, ...patch.rows.chunks] }
  const fresh = patch.rows.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
  return { ...columns, count: weave.count, rows: unworn(rows, fresh) }
}
