/** Any process on a shared storage says which configuration each of them runs. */
import { hash } from 'node:crypto'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { NO_POSTGRES } from '../store/support/storages.js'
import { replicasOver } from '../support/replicas.js'
import { until } from '../support/until.js'

const OPERATOR = 'an-operator-key'
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
