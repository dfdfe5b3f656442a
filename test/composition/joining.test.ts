/** A process that joins others shows their feed before it takes a share of their work. */
import pg from 'pg'
import { pino } from 'pino'
import { test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { bare, NO_POSTGRES } from '../store/support/storages.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const KEY = 'a storage key of the tests, long enough'
const ROWS = [
  {
    ...{ signal_agent_segment_id: 'segment', name: 'Coffee', description: 'People who drink coffee' },
    ...{ signal_type: 'owned', data_provider: 'A House', coverage_percentage: 10 },
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
  },
]
/** From now on bytes of a generation take longer to read than anything else that a start does. */
const SLOW = `
  alter table pieces rename to stored;
  create function late(bytes bytea) returns bytea language sql volatile
    as 'select bytes from pg_sleep(0.03)';
  create view pieces as select name, used_at, case when name in (
      select jsonb_array_elements_text(part->1) from manifests, jsonb_array_elements(parts::jsonb) as part
      where manifests.name like 'form/%')
    then late(bytes) else bytes end as bytes from stored`

test('it has taken up the newest generation when it is a member', { skip: NO_POSTGRES }, async (t) => {
  const agent = await startMcpAgent(wholesaleAgent(ROWS, 'v1').handle)
  t.teardown(agent.close)
  const url = (await bare(t))?.url ?? ''
  const config = {
    listen: { port: 0 },
    upstreams: [{ id: 'a', url: agent.url, protocol: 'mcp' }],
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    storage: { url, key: KEY },
  }
  const start = async () => {
    const federation = await startFederation({
      config: parseConfig('test', JSON.stringify(config), {}),
      ...{ version: '0.0.0', clock: systemClock, random: Math.random, log: pino({ level: 'silent' }) },
    })
    t.teardown(federation.close)
    return federation
  }
  const { feed } = await start()
  await until(() => feed.current()?.count, Boolean)
  const database = new pg.Client({ connectionString: url })
  await database.connect()
  await database.query(SLOW)
  await database.end()
  const joined = await start()
  t.equal(joined.feed.current()?.id, feed.current()?.id)
})
