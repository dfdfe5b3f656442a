import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { moveStore, openStore } from '../../src/store/store.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { buyer, openWorld, readAnswer } from './support/world.js'

const open = (folder: string) => openStore({ url: `file:${folder}`, now: Date.now, onProblem: () => {} })

test('a handle that only a question found leads where it led after the state moved to another storage', async (t) => {
  const sandbox = await startSandbox({ signals: 150 })
  t.teardown(() => sandbox.close())
  async function openAt(folder: string) {
    const world = await openWorld(sandbox.hosts, sandbox.registryUrl, folder)
    await world.publish(({ agentUrl }) => agentUrl.includes('northwind')) // the others are only asked
    return world
  }
  const [here, there] = [await temporaryFolder(t), await temporaryFolder(t)]
  const before = await openAt(here)
  const { signals } = readAnswer(
    await before.ask({
      signal_spec: 'electric vehicle intenders',
      time_budget: { interval: 60, unit: 'seconds' },
    }),
  )
  const handle = signals.find(
    (row) => !before.feed.resolve(row.signal_agent_segment_id),
  )?.signal_agent_segment_id
  if (handle === undefined) throw new Error('every signal of the answer is mirrored')
  const known = await before.discovery.resolve(handle, buyer)
  t.ok(known?.offers.length)
  await before.close()

  const [from, to] = [await open(here), await open(there)]
  t.ok((await moveStore(from, to)).found_rows > 0)
  await Promise.all([from.close(), to.close()])

  const after = await openAt(there)
  t.same(await after.discovery.resolve(handle, buyer), known)
  await after.close()
})
