/** How long `npm test` takes, its build included. It takes both cores, so little comes after it. */
import { report } from './report.js'
import { timeTests } from './timed-tests.js'

const { seconds, havePassed } = await timeTests('.')
if (!havePassed) throw new Error('npm test fails')
report({ what: '`npm test`', measured: seconds, unit: 's', bar: { atMost: 150 } })
