import { test } from 'tap'
import { createInForce } from '../../src/composition/running-config.js'
import { parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'

const AGENT = 'https://signals.example/mcp'

function configOf(names: string[]): Config {
  const upstreams = names.map((name) => ({ url: `https://${name}.example/mcp` }))
  return parseConfig('test', JSON.stringify({ upstreams }), {})
}

const left = ({ upstreams }: Config) => upstreams.filter(({ exclude }) => !exclude).map(({ url }) => url)

test('what an operator changed is in force until the file is read again', async (t) => {
  const inForce = createInForce(configOf(['SIGNALS']))
  const seen: string[][] = []
  inForce.onChange((config) => seen.push(left(config)))
  let changes = 0
  inForce.onChanged(() => {
    changes += 1
  })
  inForce.override({ ...inForce.overrides(), excluded: new Map([[AGENT, true]]) })
  t.same(seen, [[]], 'the agent is left out')
  t.same(left(inForce.file()), ['https://SIGNALS.example/mcp'], 'the file is as it was')
  inForce.read(configOf(['signals', 'other']))
  t.same(seen[1], [AGENT, 'https://other.example/mcp'])
  t.equal(inForce.overrides().excluded.size, 0)
  t.equal(changes, 2)
})

test('a configuration that one part cannot take up changes nothing in any', async (t) => {
  const first = configOf(['signals'])
  const inForce = createInForce(first)
  const running: { early?: string[]; late?: string[] } = {}
  inForce.onChange((config) => {
    running.early = left(config)
  })
  inForce.onChange((config) => {
    if (config.upstreams.length > 1) throw new Error('two of one name')
    running.late = left(config)
  })
  inForce.onChanged(() => t.fail('nothing changed'))
  const excluded = new Map([['https://other.example/mcp', true]])
  t.throws(() => inForce.override({ ...inForce.overrides(), excluded }), { message: 'two of one name' })
  t.same(running, { early: [AGENT], late: [AGENT] })
  t.equal(inForce.overrides().excluded.size, 0)
  t.throws(() => inForce.read(configOf(['signals', 'other'])), { message: 'two of one name' })
  t.same(running, { early: [AGENT], late: [AGENT] })
  t.equal(inForce.file(), first)
})
