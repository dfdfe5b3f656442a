import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { createStack } from '../../src/composition/foundation.js'
import { createSources } from '../../src/composition/sources.js'
import type { World } from '../../src/composition/world.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import { openBlobFiles } from '../../src/store/blob-files.js'
import { until } from '../support/upstream-world.js'
import { providerRow, startAgent } from './support/scripted-agents.js'
import { startProviders } from './support/scripted-strangers.js'

const PROVIDER = 'alpha.example'

test('a world that is taken in the very moment in which rows came names the files that they wait for', async (t) => {
  const agent = await startAgent('a')
  const providers = await startProviders(() => [agent.url])
  providers.behave(PROVIDER, 'hangs')
  agent.offer([providerRow(PROVIDER, 0, 2)])
  const folder = await mkdtemp(join(tmpdir(), 'tributary-world-'))
  const file = {
    upstreams: [{ id: 'a', url: agent.url, protocol: 'mcp' }],
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { [PROVIDER]: providers.running.origin } },
  }
  const config = parseConfig('test', JSON.stringify(file), {})
  const { allowHttp, allowNetworks, hosts } = config.egress
  const stack = createStack()
  const { send } = stack.add(createEgress({ policy: { allowHttp, allowNetworks, hosts } }))
  const blobs = await openBlobFiles({ folder, onDamage: (name) => t.comment(name) })
  const { upstreams, worlds } = createSources(
    {
      ...{ config: () => config, send, sendToUpstreams: send, blobs },
      ...{ clock: systemClock, random: () => 0.5, log: pino({ level: 'silent' }) },
    },
    stack,
  )
  t.teardown(async () => {
    providers.behave(PROVIDER, 'serves')
    await stack.close()
    await Promise.all([
      agent.close(),
      providers.running.close(),
      rm(folder, { recursive: true, force: true }),
    ])
  })

  const taken: World[] = []
  upstreams.onChange(() => taken.push(worlds.current()))
  await upstreams.start()
  const withRows = () => taken.find(({ open }) => open.slices.some(({ rows }) => rows.count > 0))
  await until('rows', () => withRows() !== undefined)
  t.match(
    withRows()?.open.gaps.find(({ kind }) => kind === 'provider'),
    { upstream: 'a', domains: [PROVIDER] },
  )
})
