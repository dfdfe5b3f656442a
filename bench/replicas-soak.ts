/**
 * Replicas through everything that may befall them, for minutes: three real processes with clocks an hour apart on a PostgreSQL
 * of their own, under callers of all kinds. First one process alone, to compare with; then three; then each fault in turn, in
 * the order that the seed gives. Ends with what has to hold. `node dist/bench/replicas-soak.js [rounds] [seed]`.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { ask } from '../test/replicas/support/asking.js'
import { type Cluster, startCluster } from '../test/replicas/support/cluster.js'
import { startCrowd, TOKENS } from '../test/replicas/support/crowd.js'
import { createFaults, FAULTS, type Fault, shuffled } from '../test/replicas/support/faults.js'
import { watchReplicas } from '../test/replicas/support/watch.js'
import { postgresBinaries } from '../test/store/support/postgres.js'
import { givenNumber } from '../test/support/given.js'
import { randomFrom } from '../test/support/random-from.js'
import { until } from '../test/support/until.js'

const ROUNDS = givenNumber(0, 1)
const SEED = givenNumber(1, Date.now() % 2 ** 31)
const AGENTS = ['a', 'b', 'c', 'd']
const ROWS = 400
const CALM_S = 30
const PUBLISH_EVERY_MS = 1_000
const LASTS_S: Record<Fault, number> = {
  killed: 25,
  stopped: 60,
  'cut from the database': 30,
  hung: 30,
  'cut from upstreams': 30,
  'no database': 30,
}
const BETWEEN_S = 20
const RATE = { per_second: 200, burst: 200 }
const RATE_S = 5
const LONGEST_MS = 3_600_000
const TAKEN_OVER_MS = 15_000
const LAG_MS = 1_000 // and a second for each 100 MB, of which there are few here

const failures: string[] = []
function judge(what: string, holds: boolean): void {
  console.log(`${holds ? 'ok    ' : 'FAILED'} ${what}`)
  if (!holds) failures.push(what)
}

const readsOf = ({ agents }: Cluster) => agents.all.reduce((sum, { reads }) => sum + reads(), 0)

/** What upstreams are asked for in so many seconds, by the second. */
async function readsInASecond(cluster: Cluster, seconds: number): Promise<number> {
  const before = readsOf(cluster)
  await wait(1_000 * seconds)
  return (readsOf(cluster) - before) / seconds
}

/** How many of twice as many requests as are allowed are answered, beyond the burst, by the second. */
async function admittedInASecond({ balancer }: Cluster): Promise<number> {
  let admitted = 0
  const open: Promise<void>[] = []
  const ends = Date.now() + 1_000 * RATE_S
  while (Date.now() < ends) {
    for (let times = 0; times < 8; times += 1) {
      open.push(
        ask(balancer.url, TOKENS.counted, 'get_adcp_capabilities', {}).then(
          (said) => {
            if (!said.adcp_error) admitted += 1
          },
          () => {},
        ),
      )
    }
    await wait(20)
  }
  await Promise.all(open)
  return (admitted - RATE.burst) / RATE_S
}

async function main(binaries: string): Promise<void> {
  console.log(`seed ${SEED}`)
  const random = randomFrom(SEED)
  const cluster = await startCluster({
    ...{ binaries, replicas: 3, agents: AGENTS, rows: ROWS, longestMs: LONGEST_MS, rateLimit: RATE },
  })
  const { replicas, agents, fence } = cluster
  const [first, ...others] = replicas
  await first?.start()
  const faults = createFaults(cluster)
  const { url } = cluster.balancer
  const crowd = await startCrowd({ url, agents: agents.all, isKeptAlone: faults.isApart })
  let turn = 0
  const publishing = setInterval(() => agents.all[turn++ % AGENTS.length]?.publish(), PUBLISH_EVERY_MS)
  await crowd.start(100)
  await wait(5_000)
  const alone = { reads: await readsInASecond(cluster, CALM_S), admitted: await admittedInASecond(cluster) }

  await Promise.all(others.map((one) => one.start()))
  await wait(10_000)
  const three = { reads: await readsInASecond(cluster, CALM_S), admitted: await admittedInASecond(cluster) }
  const reads = (of: number) => `${of.toFixed(1)} pages a second`
  judge(
    `upstreams are asked for ${reads(three.reads)} by three, ${reads(alone.reads)} by one`,
    three.reads <= 1.05 * alone.reads,
  )
  const rate = (of: number) => `${of.toFixed(0)} a second`
  judge(
    `a caller gets ${rate(three.admitted)} from three, ${rate(alone.admitted)} from one, of ${RATE.per_second}`,
    Math.abs(three.admitted / RATE.per_second - 1) <= 0.1,
  )

  const watch = watchReplicas(replicas, faults.isAfflicted)
  const [begunAt, before] = [Date.now(), readsOf(cluster)]
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const fault of shuffled(FAULTS, random)) {
      const one = await faults.busiest()
      console.log(`       ${fault === 'no database' ? 'all' : one.name}: ${fault} for ${LASTS_S[fault]} s`)
      await faults.befall(fault, one, 1_000 * LASTS_S[fault])
      await cluster.configure()
      await wait(1_000 * BETWEEN_S)
    }
  }
  const through = (1_000 * (readsOf(cluster) - before)) / (Date.now() - begunAt)
  const { versions, lags } = await watch.end()
  clearInterval(publishing)
  await crowd.end()
  for (const agent of agents.all) agent.publish()
  for (const one of replicas) {
    await until(one.served, (served) =>
      agents.all.every(({ name, version }) => served.get(name) === version()),
    )
  }
  await until(crowd.untold, (left) => left.length === 0)

  const done = crowd.tally()
  console.log(`       ${JSON.stringify(done)}, ${versions} versions of the feed`)
  const stale = await fence.stale()
  for (const fault of crowd.faults.slice(0, 10)) console.log(`       ${fault}`)
  for (const fault of crowd.audit().slice(0, 10)) console.log(`       ${fault}`)
  for (const row of stale.slice(0, 10)) console.log(`       ${JSON.stringify(row)}`)
  judge(
    `callers met ${crowd.faults.length} torn walks, refusals and prices of others`,
    crowd.faults.length === 0,
  )
  judge(`${crowd.audit().length} activations or notices were lost or doubled`, crowd.audit().length === 0)
  judge(`${stale.length} writes under an old epoch`, stale.length === 0)
  judge(`upstreams were asked for ${reads(through)} throughout`, through <= 1.05 * alone.reads)
  for (const { of, ms } of faults.takeovers) {
    judge(`${of}: its work was taken over after ${(ms / 1_000).toFixed(1)} s`, ms <= TAKEN_OVER_MS)
  }
  const longest = lags.at(-1) ?? 0
  const [middle, most] = [0.5, 0.99].map((share) => lags[Math.floor(lags.length * share)] ?? 0)
  judge(
    `a new version was on all replicas after ${middle} ms in the middle, ${most} ms for 99 of 100, ${longest} ms at most`,
    longest <= LAG_MS,
  )
  await crowd.close()
  await cluster.close()
}

const binaries = postgresBinaries()
if (!binaries) console.log('skipped: no PostgreSQL on this machine (pg_config does not name its binaries)')
else await main(binaries)
process.exit(failures.length > 0 ? 1 : 0)
