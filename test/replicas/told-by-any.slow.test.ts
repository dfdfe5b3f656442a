/**
 * Three real processes, each with a file of its own, a PostgreSQL, a plain balancer: buyers subscribe, are challenged and told,
 * and walk by cursor, while processes are killed and a change of the file reaches one after the other. The last thing that
 * befalls them comes with the last change of the feed: nothing that is published later helps whoever is behind.
 */
import { hash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { SIGNED } from '../events/support/signed.js'
import { postgresBinaries } from '../store/support/postgres.js'
import { NO_POSTGRES } from '../store/support/storages.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'
import { ask } from './support/asking.js'
import { type Replica, startCluster } from './support/cluster.js'
import { TOKENS } from './support/crowd.js'
import { createFollowers } from './support/followers.js'

const ROWS = 60
const PUBLISH_EVERY_MS = 400
const BETWEEN_FILES_MS = 700
const LONGEST_MS = 280_000

type Shown = { url: string; active: boolean }

/** An agent of so many rows, of which one carries the version: what is published is a change of two rows. */
async function startChanging(name: string) {
  const rowsAt = (version: number) =>
    Array.from({ length: ROWS }, (_, at) => {
      const says = at === version % ROWS ? ` at ${version}` : ''
      return { ...row(at), signal_agent_segment_id: `${name}_${at}`, name: `Signal ${at}${says}` }
    })
  let version = 0
  const feed = wholesaleAgent(rowsAt(0), '0')
  const agent = await startMcpAgent(feed.handle)
  return {
    ...agent,
    version: () => version,
    publish(): void {
      version += 1
      feed.publish(rowsAt(version), String(version))
    },
  }
}

test('whichever process dies or has another file, buyers are told what they then read', {
  skip: NO_POSTGRES,
}, async (t) => {
  const agent = await startChanging('a')
  t.teardown(agent.close)
  const cluster = await startCluster({
    ...{ binaries: postgresBinaries() as string, replicas: 3, longestMs: LONGEST_MS },
    ...{ agents: [], rows: 0 },
    more: () => ({
      upstreams: [{ id: 'changing', url: agent.url, protocol: 'mcp' }],
      events: SIGNED,
      callers: {
        keys: Object.entries(TOKENS).map(([id, token]) => ({
          id,
          token_sha256: hash('sha256', token, 'hex'),
        })),
      },
    }),
  })
  t.teardown(cluster.close)
  const { replicas, fence, balancer } = cluster
  const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
  const servedBy = (one: Replica) =>
    ask(one.url(), TOKENS.walker, 'get_signals', wholesale).catch(() => undefined)
  await Promise.all(replicas.map((one) => one.start()))
  for (const one of replicas)
    await until(
      () => servedBy(one),
      (said) => said?.signals?.length === ROWS,
    )
  const followers = createFollowers({
    url: balancer.url,
    judge(rows) {
      if (rows.length !== ROWS) return `${rows.length} rows of ${ROWS}, and nothing is incomplete`
      const versions = rows.flatMap(({ name }) => (name.includes(' at ') ? [name] : []))
      return versions.length === 1 ? undefined : `rows of ${versions.length} versions`
    },
  })
  t.teardown(followers.close)
  const all = [
    await followers.follow(TOKENS.buyer, 'acme.example'),
    await followers.follow(TOKENS.reader, 'acme.example'),
  ]
  const ends = [followers.keepWalking(TOKENS.walker, 50), followers.keepWalking(TOKENS.briefer, 50)]
  const publishing = setInterval(agent.publish, PUBLISH_EVERY_MS)
  t.teardown(() => clearInterval(publishing))

  const holderOf = async (work: string) => {
    const name = await until(
      async () => [...(await fence.holders())].find(([held]) => held.endsWith(work))?.[1],
      (holder) => holder !== undefined,
    )
    return replicas.find((one) => one.name === name) as Replica
  }
  let file = {}
  let seconds = 20
  /** The change reaches one after the other, the builder last. */
  async function rollOut(): Promise<void> {
    seconds += 1
    file = { defaults: { refresh: '1s', timeout: `${seconds}s` } }
    const builder = await holderOf('/builder')
    for (const one of [...replicas.filter((other) => other !== builder), builder]) {
      if (one.isRunning()) await one.reload(file)
      await wait(BETWEEN_FILES_MS)
    }
  }
  async function lose(one: Replica): Promise<void> {
    await one.kill()
    await fence.endLeasesOf(one.name) // in ten seconds they would have ended by themselves
    await one.start()
    await one.reload(file)
  }

  await lose(await holderOf('/builder'))
  const [late] = await Promise.all([followers.follow(TOKENS.counted, 'late.example'), rollOut()])
  all.push(late)
  const rolling = rollOut()
  await lose(await holderOf(new URL(agent.url).pathname))
  await rolling
  clearInterval(publishing)
  agent.publish()
  await lose(await holderOf('/builder'))

  const isNewest = (said: Awaited<ReturnType<typeof servedBy>>) =>
    said?.signals?.some(({ name }: { name: string }) => name.endsWith(` at ${agent.version()}`)) === true
  for (const one of replicas) await until(() => servedBy(one), isNewest)
  for (const end of ends) await end()
  const now = await followers.walk(TOKENS.walker)
  if (!now || now === 'unchanged') return void t.fail('the feed cannot be walked')
  for (const one of all) {
    await until(one.copy, ({ versions }) => versions === now.versions)
    const names = now.rows.map((each) => [each.signal_agent_segment_id, each.name])
    t.same([...(await one.copy()).names].sort(), names.sort(), `${one.domain} holds what is read`)
    t.same(one.faults, [])
    t.ok(one.told() > 1)
    for (const replica of replicas) {
      const { accounts } = await ask(replica.url(), one.token, 'list_accounts', {})
      const shown: Shown[] = accounts.flatMap(
        (account: { notification_configs?: Shown[] }) => account.notification_configs ?? [],
      )
      const active = shown.map(({ url, active }) => ({ url, active }))
      t.same(active, [{ url: one.url, active: true }], 'its own subscription alone, at each')
    }
  }
  t.comment(`${followers.walks()} walks, ${all.map(({ told }) => told())} events`)
  t.same(followers.faults, [], 'what buyers met')
  t.same(await fence.stale(), [], 'what was written by who had no right to it')
})
