/** Any process on a shared storage says which configuration each of them runs. */
import { hash } from 'node:crypto'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { replicasOver, type Said } from '../support/replicas.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const OPERATOR = 'an-operator-key'
const DESK = { type: 'platform', platform: 'the-trade-desk' }
const CALLERS = {
  anonymous: 'metadata',
  keys: [{ id: 'ops', role: 'operator', token_sha256: hash('sha256', OPERATOR, 'hex') }],
}

test('a process that runs another configuration is seen from its neighbour, until it ends', {
  skip: NO_POSTGRES,
}, async (t) => {
  const start = await replicasOver(t, [], { callers: CALLERS })
  if (!start) return
  const [one, other] = [await start(), await start()]
  const { url } = one.federation
  const seen = async () => {
    const { configuration } = (await (await fetch(`${url}/readyz`)).json()) as {
      configuration: { revision: string; replicas: Record<string, number> }
    }
    return configuration
  }
  const agreed = await until(seen, ({ replicas, revision }) => replicas[revision] === 2)
  t.same(Object.keys(agreed.replicas), [agreed.revision])

  const changed = parseConfig('test', '{ "callers": { "anonymous": "metadata" } }', {})
  other.federation.apply(changed)
  const { replicas } = await until(seen, (answer) => answer.replicas[changed.revision] === 1)
  t.same(replicas, { [agreed.revision]: 1, [changed.revision]: 1 })
  const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${OPERATOR}` } })
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('tributary_replicas{'))
  t.same(
    lines.sort(),
    [agreed, changed].map(({ revision }) => `tributary_replicas{revision="${revision}"} 1`).sort(),
  )

  await other.close()
  t.same((await until(seen, (answer) => Object.keys(answer.replicas).length === 1)).replicas, {
    [agreed.revision]: 1,
  })
})

test('what only a newer file names is called by those that have the file, who know by which credential', {
  skip: NO_POSTGRES,
}, async (t) => {
  const agent = wholesaleAgent([row(1)], 'v1')
  let activations = 0
  const { url, close } = await startMcpAgent((task, args) => {
    if (task !== 'activate_signal') return agent.handle(task, args)
    activations += 1
    return { status: 'completed', deployments: [{ ...DESK, is_live: true }] }
  })
  t.teardown(close)
  const storage = await shared(t)
  const older = {
    callers: { keys: [{ id: 'buyer', token_sha256: hash('sha256', 'a-buyer-key', 'hex') }] },
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    storage: { url: storage?.url, key: 'a storage key of the tests, long enough' },
  }
  const start = await replicasOver(t, [], older)
  if (!start) return
  const [one, other] = [await start(), await start()]
  const upstreams = [{ id: 'a', url, protocol: 'mcp', auth: { type: 'bearer', token: 'its-credential' } }]
  one.federation.apply(parseConfig('test', JSON.stringify({ ...older, upstreams }), {}))
  const { signals } = await until(other.wholesale, (answer) => answer.signals?.length > 0)
  const activate = ({ call }: typeof one): Promise<Said> =>
    call('activate_signal', {
      ...{ adcp_version: '3.1', idempotency_key: 'one-key-for-both-processes' },
      signal_agent_segment_id: signals[0].signal_agent_segment_id,
      pricing_option_id: signals[0].pricing_options[0].pricing_option_id,
      destinations: [DESK],
    })
  t.match(await activate(other), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  t.equal(activations, 0)
  t.match(await activate(one), { status: 'completed' })
  t.equal(activations, 1)
})
