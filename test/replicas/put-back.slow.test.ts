/** A storage that is put back to an earlier state while processes run on it. */
import { test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { replicasOver } from '../support/replicas.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const rows = (version: string) => [row(1, { name: `Signal of ${version}` })]

test('rows that a storage lacks, which was put back while processes run, are saved again', {
  skip: NO_POSTGRES,
}, async (t) => {
  const agent = wholesaleAgent(rows('v1'), 'v1')
  const { url, close } = await startMcpAgent(agent.handle)
  t.teardown(close)
  const storage = await shared(t)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }], {
    storage: { url: storage?.url, key: 'a storage key of the tests, long enough' },
  })
  if (!start || !storage) return
  const { blobs, db } = await storage.open()
  const replicas = await Promise.all([start(), start()])
  const seen = async (version: string) => {
    for (const { wholesale } of replicas) {
      await until(wholesale, ({ signals }) => signals?.[0]?.name.endsWith(version))
    }
  }
  const saved = async () => {
    const [name = ''] = await blobs.list('slice/public/')
    const rows = Buffer.concat((await blobs.read(name)) ?? []).toString()
    return ['v1', 'v2'].filter((version) => rows.includes(` ${version}"`)).join()
  }
  await seen('v1')
  await until(saved, (version) => version === 'v1')
  const backup = await db.selectFrom('manifests').selectAll().where('name', 'like', 'slice/%').execute()
  agent.publish(rows('v2'), 'v2')
  await seen('v2')
  t.equal(await saved(), 'v2')
  await db.transaction().execute(async (restoring) => {
    await restoring.deleteFrom('manifests').where('name', 'like', 'slice/%').execute()
    await restoring.insertInto('manifests').values(backup).execute()
    await restoring.updateTable('leases').set({ until: 0 }).execute() // each is over in a backup
  })
  t.equal(
    await until(saved, (version) => version === 'v2'),
    'v2',
    'whoever loads them finds those that are shown',
  )
})
