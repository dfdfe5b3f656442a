/** How long `npm test` takes, its build included. It takes both cores, so little comes after it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { report } from './report.js'

const startedAt = performance.now()
const child = spawn('npm', ['test'], { stdio: 'ignore' })
const [ended] = (await once(child, 'exit')) as [number | null]
const seconds = (performance.now() - startedAt) / 1_000
if (ended !== 0) throw new Error('npm test fails')
report({ what: '`npm test`', measured: seconds, unit: 's', bar: { atMost: 150 } })
