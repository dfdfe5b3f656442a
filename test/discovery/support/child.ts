/** A process that submits a question and then waits to be killed. */
import { openWorld, readAnswer } from './world.js'

const [hosts, registryUrl, folder, push] = process.argv.slice(2) as [string, string, string, string]
const world = await openWorld(JSON.parse(hosts), registryUrl, folder)
await world.publish()
const answer = readAnswer(
  await world.ask({
    signal_spec: 'mortgage seekers',
    time_budget: { interval: 60, unit: 'seconds' }, // it is told of every task that was begun, however busy the machine
    push_notification_config: JSON.parse(push),
  }),
)
process.stdout.write(`${answer.taskId}\n`)
setInterval(() => {}, 1_000)
