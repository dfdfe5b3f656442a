/** A process shows no rows that would be lost with it: whoever builds after it finds them. */
import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Test, test } from 'tap'
import { bare, NO_POSTGRES } from '../store/support/storages.js'
import { callTool } from '../support/call-tool.js'
import { startCommand } from '../support/command.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

type Answer = { signals?: { pricing_options: { cpm: number }[] }[] }

const TOKEN = 'a-buyer-key'
const rowsAt = (cpm: number) => [
  {
    ...{ signal_agent_segment_id: 'segment', name: 'Coffee', description: 'People who drink coffee' },
    ...{ signal_type: 'owned', data_provider: 'A House', coverage_percentage: 10 },
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
  },
]
/** From now on an upstream's rows take longer to write than everything that is made of them. */
const SLOW = `
  create function late() returns trigger language plpgsql as $$
  begin
    if new.name like 'slice/%' then perform pg_sleep(1); end if;
    return new;
  end $$;
  create trigger late before insert or update on manifests for each row execute function late()`
/** The turn of the mirror goes to another process for a while, as soon as the next rows are being written. */
const LOST = `
  create sequence writes;
  create function lost() returns trigger language plpgsql as $$
  begin
    if nextval('writes') = 1 then
      update leases set owner = 'another', epoch = epoch + 1, until = until - 5000 where name like 'mirror/%';
    end if;
    return new;
  end $$;
  create trigger lost before insert on pieces for each row execute function lost()`
/** As if the lease of whoever is gone had ended by itself. */
const OVER = 'update leases set until = 0'

/** The price that a process shows; undefined before it has a feed. */
async function priceAt(url: string): Promise<number | undefined> {
  const input = { adcp_version: '3.1', discovery_mode: 'wholesale' }
  const { signals = [] } = await callTool<Answer>(url, 'get_signals', input, TOKEN)
  return signals[0]?.pricing_options[0]?.cpm
}

async function configured(t: Test, agent: string, url: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-back-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'tributary.json')
  const config = {
    listen: { port: 0 },
    upstreams: [{ id: 'a', url: agent, protocol: 'mcp' }],
    defaults: { refresh: '1s' },
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      keys: [
        {
          ...{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex') },
          destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
        },
      ],
    },
    storage: { url, key: 'a storage key of the tests, long enough' },
  }
  await writeFile(file, JSON.stringify(config))
  return file
}

/**
 * A process shows the price 1; after `change` the agent's price is 2. As soon as the process shows 2 it is killed, with its agent, and
 * another one starts. Gives every price that the second one shows, until it has built a feed of its own.
 */
async function shownAfter(t: Test, change: string): Promise<(number | undefined)[]> {
  const feed = wholesaleAgent(rowsAt(1), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const url = (await bare(t))?.url ?? ''
  const file = await configured(t, agent.url, url)
  const start = async () => {
    const running = startCommand(['serve', '--config', file])
    t.teardown(async () => {
      running.process.kill('SIGKILL')
      await running.finished
    })
    const [, found = ''] = await running.printed(/in one feed at (http:\/\/127\.0\.0\.1:\d+)/)
    return { ...running, url: found }
  }
  const database = new pg.Client({ connectionString: url })
  database.on('error', () => {})

  const one = await start()
  await until(
    () => priceAt(one.url),
    (price) => price === 1,
  )
  await database.connect()
  await database.query(change)
  feed.publish(rowsAt(2), 'v2')
  await until(
    () => priceAt(one.url),
    (price) => price === 2,
  )
  one.process.kill('SIGKILL')
  await one.finished
  agent.server.close() // nobody can read them anew
  agent.server.closeAllConnections()
  await database.query(OVER)

  const two = await start()
  const generation = async () => {
    const { rows } = await database.query<{ seq: string }>(
      "select seq from notes where name like 'form/%/generation'",
    )
    return rows[0]?.seq
  }
  const before = await generation()
  const seen = new Set<number | undefined>()
  await until(
    async () => {
      seen.add(await priceAt(two.url))
      return await generation()
    },
    (seq) => seq !== before,
  )
  seen.add(await priceAt(two.url))
  seen.delete(undefined)
  await database.end()
  return [...seen]
}

test('what a process showed last is shown by whoever builds after it, however it ended', {
  skip: NO_POSTGRES,
}, async (t) => {
  t.same(await shownAfter(t, SLOW), [2])
})

test('also where it lost the right to save rows that it had read, but not the right to build', {
  skip: NO_POSTGRES,
}, async (t) => {
  t.same(await shownAfter(t, LOST), [2])
})
