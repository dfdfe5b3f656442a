/** A copy in files, where only some rows change. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { openJsonLines } from '../../src/mirror/json-lines.js'
import { temporaryFolder } from '../support/temporary-folder.js'

const rowOf = (id: string, name: string) => ({ id, row: { signal_agent_segment_id: id, name } })
const STATE = { source: 'an agent', rows: 3, walkedAt: 0, incomplete: [] }

test('a row that holds what ends a line elsewhere stays one line when others change', async (t) => {
  const folder = await temporaryFolder(t)
  const copy = await openJsonLines(folder)
  t.teardown(() => copy.close())
  const odd = rowOf('odd', 'one \u2028 two \u2029 three \u0085 four')
  const { add, commit } = await copy.replace()
  await add([odd, rowOf('changes', 'before'), rowOf('leaves', 'before')])
  await commit(STATE)
  const changed = rowOf('changes', 'after')
  const amended = await copy.amend(
    new Map([
      ['changes', { kind: 'put', row: changed.row }],
      ['leaves', { kind: 'remove' }],
    ]),
    { version: 'v2' },
  )
  t.match(amended, { rows: 2, version: 'v2' })
  const lines = (await readFile(join(folder, 'feed.ndjson'), 'utf8')).split('\n')
  t.same(lines, [JSON.stringify(odd.row), JSON.stringify(changed.row), ''])
})

test('a long row costs what its length costs when others change', async (t) => {
  async function cpuFor(mib: number): Promise<number> {
    const copy = await openJsonLines(await temporaryFolder(t))
    const { add, commit } = await copy.replace()
    await add([rowOf('long', 'x'.repeat(mib * 2 ** 20)), rowOf('leaves', 'before')])
    await commit(STATE)
    const before = process.cpuUsage()
    t.match(await copy.amend(new Map([['leaves', { kind: 'remove' }]]), {}), { rows: 1 })
    const { user } = process.cpuUsage(before)
    await copy.close()
    return user
  }
  await cpuFor(1)
  const [short, long] = [await cpuFor(8), await cpuFor(32)]
  t.ok(long < short * 9, `${long} and ${short} us of CPU`)
})
