/**
 * Three real processes with clocks an hour apart, a PostgreSQL, a plain balancer: while callers of all kinds work, any of them
 * is killed, stands still or is cut off, and the database goes. What replicas share in order, `npm test` sees in e2e/replicas. The
 * long form, with what is measured, is bench/replicas-soak.ts.
 */
import { test } from 'tap'
import { postgresBinaries } from '../store/support/postgres.js'
import { NO_POSTGRES } from '../store/support/storages.js'
import { randomFrom } from '../support/random-from.js'
import { until } from '../support/until.js'
import { startCluster } from './support/cluster.js'
import { startCrowd } from './support/crowd.js'
import { createFaults, shuffled } from './support/faults.js'

const SEED = Number(process.env.SEED ?? 20_261_122)
const LASTS_MS = 500
const PUBLISH_EVERY_MS = 250
const LONGEST_MS = 280_000

test('nothing is torn, lost or doubled, whatever of it fails', { skip: NO_POSTGRES }, async (t) => {
  t.comment(`seed ${SEED}`)
  const random = randomFrom(SEED)
  const cluster = await startCluster({
    ...{ binaries: postgresBinaries() as string, replicas: 3, longestMs: LONGEST_MS },
    ...{ agents: ['a', 'b'], rows: 150 },
  })
  t.teardown(cluster.close)
  const { replicas, agents, fence } = cluster
  const allServe = async (holds: (served: Map<string, number>) => boolean) => {
    for (const one of replicas) await until(() => one.served(), holds, LONGEST_MS)
  }
  await Promise.all(replicas.map((one) => one.start()))
  await allServe((served) => served.size === agents.all.length) // else one may not know yet what a caller read at another
  const faults = createFaults(cluster)
  const { url } = cluster.balancer
  const crowd = await startCrowd({ url, agents: agents.all, isKeptAlone: faults.isApart })
  t.teardown(crowd.close)
  await crowd.start(100)

  const publishing = setInterval(
    () => agents.all[Math.floor(random() * agents.all.length)]?.publish(),
    PUBLISH_EVERY_MS,
  )
  t.teardown(() => clearInterval(publishing))
  const [first, ...others] = shuffled(replicas, random)
  if (!first) return
  const dead = faults.befall('killed', first, 0)
  await fence.endLeasesOf(first.name) // in ten seconds they would have ended by themselves
  for (const fault of shuffled(faults.passing, random)) {
    const [one = first] = shuffled(others, random)
    t.comment(`${one.name}: ${fault}`)
    await faults.befall(fault, one, LASTS_MS)
    await cluster.configure()
  }
  await dead
  clearInterval(publishing)
  await crowd.end()
  for (const agent of agents.all) agent.publish()
  await allServe((served) => agents.all.every(({ name, version }) => served.get(name) === version()))
  await until(crowd.untold, (left) => left.length === 0, LONGEST_MS)

  t.comment(JSON.stringify(crowd.tally()))
  t.same(crowd.faults, [], 'what callers met')
  t.same(crowd.audit(), [], 'what agents and receivers have in their books')
  t.same(await fence.stale(), [], 'what was written by who had no right to it')
})
