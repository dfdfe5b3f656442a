/** A process that reaches the database and not the agents leaves them to the others, whose rows it goes on to serve. */
import { test } from 'tap'
import { postgresBinaries } from '../store/support/postgres.js'
import { NO_POSTGRES } from '../store/support/storages.js'
import { until } from '../support/until.js'
import { startCluster } from './support/cluster.js'
import { createFaults } from './support/faults.js'

const LONGEST_MS = 280_000

test('its mirrors are read by others, and it shows what they read', { skip: NO_POSTGRES }, async (t) => {
  const cluster = await startCluster({
    ...{ binaries: postgresBinaries() as string, replicas: 3, longestMs: LONGEST_MS },
    ...{ agents: ['a', 'b', 'c', 'd'], rows: 120 },
  })
  t.teardown(cluster.close)
  const { replicas, agents, fence } = cluster
  await Promise.all(replicas.map((one) => one.start()))
  const { busiest } = createFaults(cluster)
  const mirrors = async () => [...(await fence.holders())].filter(([name]) => name.startsWith('mirror/'))
  await until(mirrors, (held) => held.length === agents.all.length, LONGEST_MS)
  const one = await busiest()
  agents.reach(one.address, false)
  const held = await until(
    mirrors,
    (now) => now.length === agents.all.length && now.every(([, holder]) => holder !== one.name),
    LONGEST_MS,
  )
  t.equal(held.length, agents.all.length)
  for (const agent of agents.all) agent.publish()
  const shown = await until(
    one.served,
    (served) => agents.all.every(({ name, version }) => served.get(name) === version()),
    LONGEST_MS,
  )
  t.equal(shown.size, agents.all.length)
  t.same(await fence.stale(), [])
})
