/**
 * The examples of docs/clients.md for the older A2A SDK and the protocol's own. Their packages come with the conformance run,
 * which stands before the slow tests in CI; here they are installed when they are not there yet.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { test } from 'tap'
import { examples, isOfConformance, startDemo } from './support/examples.js'

const run = promisify(execFile)
const INSTALL = ['ci', '--prefix', 'conformance', '--ignore-scripts', '--no-audit', '--no-fund']

test('the examples for clients of another generation do what they say', async (t) => {
  if (!existsSync('conformance/node_modules/.package-lock.json')) await run('npm', INSTALL)
  const demo = await startDemo(t)
  const theirs = (await examples()).filter(isOfConformance)
  t.equal(theirs.length, 2)
  for (const { heading, code } of theirs)
    t.match(await demo.script(code, 'conformance'), /^completed [1-9]\d*$/m, heading)
})
