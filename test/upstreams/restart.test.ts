import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { openBlobFiles } from '../../src/store/blob-files.js'
import { sliceListing } from '../../src/upstreams/rows/slice.js'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, rows, until, urlOf } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

/** A folder that holds one upstream's slice, its agent, and a way to open it again. */
async function mirrored(t: Test) {
  const feed = wholesaleAgent(rows(250), 'v1')
  const agent = await startMcpAgent(feed.handle, { port: await reservedPort() })
  t.teardown(agent.close)
  const folder = await temporaryFolder(t)
  const reopen = (auth?: { type: 'bearer'; token: string }) =>
    openUpstreams(t, configOf([{ id: 'a', url: agent.url, ...(auth && { auth }) }]), { folder })
  const first = await reopen()
  await first.upstreams.start()
  await until('a slice', () => first.upstreams.slices().length === 1)
  await first.close()
  return { feed, agent, folder, reopen, slice: first.upstreams.slices()[0] }
}

test('slices are in use again before any upstream is asked, and a poll keeps them', async (t) => {
  const { feed, reopen } = await mirrored(t)
  const pages = feed.pages()
  const { upstreams } = await reopen()
  await upstreams.start()
  const [slice] = upstreams.slices()
  t.match(slice, { upstream: 'a', feedVersion: 'v1', mode: 'wholesale' })
  t.same(slice && sliceListing(slice, 249), row(249))
  t.same([...upstreams.providerDomains().values()], [['tridentauto.example']])
  const confirmedAt = upstreams.statuses()[0]?.confirmedAt ?? 0
  await until('a confirmation', () => (upstreams.statuses()[0]?.confirmedAt ?? 0) > confirmedAt)
  t.equal(feed.pages(), pages + 2, 'two pages were looked at')
})

test('a refresh that is asked for while slices are read back waits for them', async (t) => {
  const { feed, folder, agent } = await mirrored(t)
  const pages = feed.pages()
  const time = createManualClock(Date.now())
  const files = await openBlobFiles({ folder, onDamage: (name) => t.comment(name) })
  const hurrying = {
    ...files,
    async read(name: string) {
      if (name.startsWith('slice/')) {
        upstreams.refreshSoon(urlOf(upstreams, 'a'))
        time.advance(0)
      }
      return files.read(name)
    },
  }
  const config = configOf([{ id: 'a', url: agent.url }])
  const { upstreams } = await openUpstreams(t, config, { clock: time.clock, blobs: hurrying })
  await upstreams.start()
  await until('the refresh', () => (upstreams.statuses()[0]?.nextAttemptAt ?? 0) > time.clock.now())
  t.match(upstreams.statuses(), [{ state: 'fresh', listings: 250 }])
  t.equal(feed.pages(), pages + 2, 'two pages were looked at')
})

test('an upstream that is down after a restart keeps its rows, as stale', async (t) => {
  const { agent, reopen } = await mirrored(t)
  await agent.close()
  const { upstreams } = await reopen()
  await upstreams.start()
  t.equal(upstreams.slices()[0]?.rows.count, 250)
  await until('the problem', () => upstreams.statuses()[0]?.problem !== undefined)
  t.match(upstreams.statuses(), [{ state: 'stale', listings: 250, problem: { reason: 'unreachable' } }])
})

test('rows that could not be saved are saved with the next confirmation', async (t) => {
  const { feed, agent, folder, reopen } = await mirrored(t)
  const files = await openBlobFiles({ folder, onDamage: (name) => t.comment(name) })
  let isFull = true
  const write = async (name: string, parts: readonly Uint8Array[]) => {
    if (isFull && name.startsWith('slice/')) throw new Error('ENOSPC: no space left on device')
    await files.write(name, parts)
  }
  const config = configOf([{ id: 'a', url: agent.url }])
  const first = await openUpstreams(t, config, { blobs: { ...files, write } })
  feed.publish(rows(251), 'v2')
  await first.upstreams.start()
  const status = () => first.upstreams.statuses()[0]
  await until('the new rows', () => status()?.listings === 251)
  await until('that they are not saved', () => first.trouble.length > 0)
  isFull = false
  const confirmedAt = status()?.confirmedAt ?? 0
  await until('a confirmation', () => {
    first.upstreams.refreshSoon(urlOf(first.upstreams, 'a'))
    return (status()?.confirmedAt ?? 0) > confirmedAt
  })
  await first.close()
  await agent.close()

  const { upstreams } = await reopen()
  await upstreams.start()
  t.equal(upstreams.slices()[0]?.rows.count, 251)
})

test('after a restart the rows that were saved last are as old as they are, beside a silent upstream too', async (t) => {
  const { feed, agent, folder } = await mirrored(t)
  const files = await openBlobFiles({ folder, onDamage: (name) => t.comment(name) })
  const write = async (name: string, parts: readonly Uint8Array[]) => {
    if (name.startsWith('slice/')) throw new Error('ENOSPC: no space left on device')
    await files.write(name, parts)
  }
  const config = configOf([{ id: 'a', url: agent.url }], { staleAfterMs: 600_000 })
  const time = createManualClock(Date.now() + 599_000)
  const open = () => openUpstreams(t, config, { clock: time.clock, blobs: { ...files, write } })
  const first = await open()
  feed.publish(rows(251), 'v2')
  await first.upstreams.start()
  await until('the new rows', () => first.upstreams.statuses()[0]?.listings === 251)
  first.upstreams.refreshSoon(urlOf(first.upstreams, 'a'))
  time.advance(60_000)
  const at = time.clock.now()
  await until('a confirmation', () => first.upstreams.statuses()[0]?.confirmedAt === at)
  await first.close()
  await agent.close()
  const silent = await startHttp(() => new Promise(() => {}), '/mcp', Number(new URL(agent.url).port))
  t.teardown(silent.close)

  const { upstreams } = await open()
  await upstreams.start()
  t.match(upstreams.statuses(), [{ listings: 250, state: 'stale' }])
})

test('a damaged slice is ignored, named, and read again', async (t) => {
  const { folder, reopen } = await mirrored(t)
  const name = (await readdir(folder)).find((file) => file.startsWith('slice')) as string
  const bytes = await readFile(join(folder, name))
  bytes[bytes.length - 100] = (bytes[bytes.length - 100] as number) ^ 1
  await writeFile(join(folder, name), bytes)
  const { upstreams, trouble } = await reopen()
  await upstreams.start()
  t.equal(upstreams.slices().length, 0)
  t.match(trouble[0], /^slice\/public\/http:.*checksum/)
  await until('a fresh slice', () => upstreams.slices().length === 1)
})

test('tokens are not sent with another credential than they came with', async (t) => {
  const { feed, reopen } = await mirrored(t)
  const pages = feed.pages()
  const { upstreams } = await reopen({ type: 'bearer', token: 'other' })
  await upstreams.start()
  t.equal(upstreams.slices()[0]?.feedVersion, undefined)
  await until('a whole walk', () => feed.pages() === pages + 3)
})

test('a slice of an agent that nobody lists any more is forgotten', async (t) => {
  const { folder, feed } = await mirrored(t)
  const other = await startMcpAgent(feed.handle)
  t.teardown(other.close)
  const { upstreams, close } = await openUpstreams(t, configOf([{ id: 'b', url: other.url }]), { folder })
  await upstreams.start()
  await until('its slice', () => upstreams.slices().length === 1)
  await close()
  const kept = (await readdir(folder)).filter((file) => file.startsWith('slice'))
  t.equal(kept.length, 1)
  t.ok(kept[0]?.includes(new URL(other.url).port))
})
