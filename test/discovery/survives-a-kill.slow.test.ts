/** Slow, because it kills a process; goes-on.test.ts ends one in order. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/upstream-world.js'
import { startReceiver } from './support/receiver.js'
import { openWorld } from './support/world.js'

const CHILD = fileURLToPath(new URL('./support/child.js', import.meta.url))
const A_PERSON_MS = 600_000

test('kill -9 between submitted and completion: the task completes after the restart and is notified', async (t) => {
  let ahead = 0
  const sandbox = await startSandbox({ signals: 100, now: () => Date.now() + ahead })
  t.teardown(() => sandbox.close())
  const { url, received } = await startReceiver(t)
  const folder = await temporaryFolder(t)
  sandbox.agents.meridian.briefTakes(A_PERSON_MS)
  const credentials = 'a-bearer-token-of-at-least-32-characters'
  const push = { url, operation_id: 'op_9', authentication: { schemes: ['Bearer'], credentials } }
  const args = [JSON.stringify(sandbox.hosts), sandbox.registryUrl, folder, JSON.stringify(push)]
  const child = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])) as [Buffer]
  const taskId = String(line).trim()
  t.match(taskId, /^task_/)
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.equal(received.length, 0, 'it was killed before the end')

  ahead = A_PERSON_MS // its task is done, and whoever asks it afresh waits for another person
  const world = await openWorld(sandbox.hosts, sandbox.registryUrl, folder)
  t.teardown(() => world.close())
  t.equal((await world.store.tasks.get('buyer', taskId))?.status, 'submitted')
  await world.publish()
  await world.discovery.resume()
  await until(
    'the task ends',
    async () => (await world.store.tasks.get('buyer', taskId))?.status !== 'submitted',
  )
  const task = await world.store.tasks.get('buyer', taskId)
  t.equal(task?.status, 'completed')
  t.match(JSON.stringify(task?.result), /meridian[^}]*"answered"/, 'by the task that it had begun for us')
  await until('it is notified', () => received.length === 1)
  t.equal(received[0]?.headers.authorization, `Bearer ${credentials}`)
  t.match(JSON.parse(received[0]?.body ?? ''), { task_id: taskId, operation_id: 'op_9', status: 'completed' })
})
