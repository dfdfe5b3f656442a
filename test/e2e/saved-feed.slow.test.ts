import { join } from 'node:path'
import { type Test, test } from 'tap'
import { openBlobFiles } from '../../src/store/blob-files.js'
import { startWorld, type World } from '../support/federation.js'
import { until } from '../support/until.js'

const blobsOf = (t: Test, { folder }: World) =>
  openBlobFiles({ folder: join(folder, 'blobs'), onDamage: (name) => t.comment(name) })

/** Changes the saved feed, to as many bytes. */
async function rewrite(t: Test, world: World, change: (text: string) => string): Promise<void> {
  const blobs = await blobsOf(t, world)
  const parts = (await blobs.read('feed')) ?? []
  const written = parts.map((part) => Buffer.from(change(Buffer.from(part).toString('latin1')), 'latin1'))
  await blobs.write('feed', written)
}

test('a restart takes up the merged feed that was saved', async (t) => {
  const world = await startWorld({ signals: 48 })
  t.teardown(() => world.close())
  const names = async () =>
    (await world.walk()).flatMap(({ signals = [] }) => signals.map(({ name }) => name))
  const before = await names()

  await world.restart(() => rewrite(t, world, (text) => text.replaceAll(/"name":"./g, '"name":"#')))
  t.ok(
    (await names()).every((name) => String(name).startsWith('#')),
    'rows are the saved ones',
  )

  await world.restart(() => rewrite(t, world, (text) => text.replace(/"format":\d/, '"format":0')))
  t.same(await names(), before, 'rows of another format are merged again')
})

test('what changed since the feed was saved is merged', async (t) => {
  const world = await startWorld({ signals: 48 })
  t.teardown(() => world.close())
  const [before] = await world.walk()
  await world.restart(async () => world.sandbox.agents.northwind.reprice())
  await until(
    () => world.wholesale(),
    ({ pricing_version: version }) => version !== before?.pricing_version,
  )
  const [after] = await world.walk()
  t.equal(after?.pagination?.total_count, before?.pagination?.total_count)
})
