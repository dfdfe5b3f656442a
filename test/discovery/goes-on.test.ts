import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/upstream-world.js'
import { startReceiver } from './support/receiver.js'
import { openWorld, readAnswer } from './support/world.js'

const A_PERSON_MS = 600_000

test('a question that is submitted when the server ends is completed after its next start, and notified', async (t) => {
  let ahead = 0
  const sandbox = await startSandbox({ signals: 100, now: () => Date.now() + ahead })
  t.teardown(() => sandbox.close())
  const { url, received } = await startReceiver(t)
  const folder = await temporaryFolder(t)
  const open = () => openWorld(sandbox.hosts, sandbox.registryUrl, folder)
  sandbox.agents.meridian.briefTakes(A_PERSON_MS)
  const first = await open()
  await first.publish()
  const question = {
    signal_spec: 'mortgage seekers',
    time_budget: { interval: 60, unit: 'seconds' } as const, // it is told of meridian's task, however busy the machine
    push_notification_config: {
      ...{ url, operation_id: 'op_9' },
      authentication: { schemes: ['Bearer'], credentials: 'a-bearer-token-of-at-least-32-characters' },
    },
  }
  const { taskId = '' } = readAnswer(await first.ask(question))
  await first.close()
  t.equal(received.length, 0, 'it ended before')

  ahead = A_PERSON_MS // its task is done, and whoever asks it afresh waits for another person
  const world = await open()
  t.teardown(world.close)
  t.equal((await world.store.tasks.get('buyer', taskId))?.status, 'submitted')
  await world.publish()
  await world.discovery.resume()
  await until('it is notified', () => received.length === 1)
  const task = await world.store.tasks.get('buyer', taskId)
  t.equal(task?.status, 'completed')
  t.match(JSON.stringify(task?.result), /meridian[^}]*"answered"/, 'by the task that it had begun for us')
})
