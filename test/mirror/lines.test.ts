/** A copy in files, where only some rows change. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { openJsonLines } from '../../src/mirror/json-lines.js'
import { costRatio } from '../support/cost-ratio.js'
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
    { version: 'v2', incomplete: [] },
  )
  t.match(amended, { rows: 2, version: 'v2' })
  const lines = (await readFile(join(folder, 'feed.ndjson'), 'utf8')).split('\n')
  t.same(lines, [JSON.stringify(odd.row), JSON.stringify(changed.row), ''])
})

test('a long row costs what its length costs when others change', async (t) => {
  async function amending(mib: number): Promise<() => Promise<void>> {
    const copy = await openJsonLines(await temporaryFolder(t))
    t.teardown(copy.close)
    const { add, commit } = await copy.replace()
    await add([rowOf('long', 'x'.repeat(mib * 2 ** 20)), rowOf('changes', 'before')])
    await commit(STATE)
    const { id, row } = rowOf('changes', 'after')
    return async () => void (await copy.amend(new Map([[id, { kind: 'put', row }]]), { incomplete: [] }))
  }
  const [short, long] = [await amending(4), await amending(16)]
  const ratio = await costRatio({ work: short, times: 1 }, { work: long, times: 1 }, 9)
  t.ok(ratio < 9, `${ratio} times for a row four times as long`)
})

test('a folder where a file of the copy belongs is told by its name, and keeps nothing open', async (t) => {
  for (const name of ['state.json', 'feed.ndjson', 'feed.ndjson.part']) {
    const folder = await temporaryFolder(t)
    const first = await openJsonLines(folder)
    const { add, commit } = await first.replace()
    await add([rowOf('one', '1'), rowOf('two', '2'), rowOf('three', '3')])
    await commit(STATE)
    await first.close()
    await rm(join(folder, name), { force: true })
    await mkdir(join(folder, name))
    await t.rejects(openJsonLines(folder), new RegExp(`${name}\\b.*\\bEISDIR|EISDIR.*/${name}\\b`))
    await rm(join(folder, name), { recursive: true })
    await (await openJsonLines(folder)).close()
  }
})

test('a folder that comes where the next lines are written keeps no copy from being closed', async (t) => {
  const folder = await temporaryFolder(t)
  const copy = await openJsonLines(folder)
  await mkdir(join(folder, 'feed.ndjson.part'))
  await t.rejects(copy.replace(), /EISDIR.*feed\.ndjson\.part/)
  await copy.close()
  await rm(join(folder, 'feed.ndjson.part'), { recursive: true })
  await (await openJsonLines(folder)).close()
})

test('lines that were not committed are removed: by the mirror that wrote them, or the next', async (t) => {
  const folder = await temporaryFolder(t)
  await writeFile(join(folder, 'feed.ndjson.part'), 'of a process that was killed')
  const copy = await openJsonLines(folder)
  t.notOk((await readdir(folder)).includes('feed.ndjson.part'))
  await mkdir(join(folder, 'feed.ndjson'))
  const { add, commit, abandon } = await copy.replace()
  await add([rowOf('one', '1')])
  await t.rejects(commit({ ...STATE, rows: 1 }), /EISDIR|ENOTEMPTY/)
  await abandon()
  t.notOk((await readdir(folder)).includes('feed.ndjson.part'))
  await copy.close()
})
