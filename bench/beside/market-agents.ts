/** The demo world in a process of its own, with so many signals: prints where its domains answer as one line of JSON. */
import { startSandbox } from '../../sandbox/world.js'

const { hosts, registryUrl } = await startSandbox({ signals: Number(process.argv[2]) })
process.stdout.write(`${JSON.stringify({ hosts, registryUrl })}\n`)
