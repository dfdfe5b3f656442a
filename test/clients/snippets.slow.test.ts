/**
 * The examples of docs/clients.md for the older A2A SDK and the protocol's own. Their packages come with the conformance run,
 * which stands before the slow tests in CI; here they are installed when they are not there yet.
 */
import { test } from 'tap'
import { needConformancePackages } from '../support/conformance-packages.js'
import { examples, isOfConformance, startDemo } from './support/examples.js'

test('the examples for clients of another generation do what they say', async (t) => {
  await needConformancePackages()
  const demo = await startDemo(t)
  const theirs = (await examples()).filter(isOfConformance)
  t.equal(theirs.length, 2)
  for (const { heading, code } of theirs)
    t.match(await demo.script(code, 'conformance'), /^completed [1-9]\d*$/m, heading)
})
