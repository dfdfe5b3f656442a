/**
 * Runs test files one after another in this process: what they import is read once, and is warm from the second file on.
 *
 *     node --enable-source-maps dist/test/together.js dist/test/net/clock.test.js dist/test/net/time.test.js
 *
 * Every test is named with its file. A file has ended when its tests have, and what it asked `tap.teardown` for.
 */
import './no-hooks.js' // before tap
import { once } from 'node:events'
import { relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { t } from 'tap'
import { LONGEST_MS } from './support/longest.js'

// Most of what tests run, they run seldom: a function is compiled for speed only after several times as much work as
// otherwise. Of tests with servers that saves a sixth of the processor's time. Node 24's engine has no such flag.
if (Number.parseInt(process.versions.node, 10) < 24) setFlagsFromString('--interrupt-budget=500000')

/** The tests of the process while one file is read and run: tap's `test` and `teardown` belong to the process otherwise. */
type Running = { file: string; ended: Promise<unknown>[]; teardowns: (() => unknown)[] }

let running: Running | undefined

t.on('subtestAdd', (test) => {
  if (!running) return
  test.name = `${running.file} > ${test.name}`
  running.ended.push(once(test, 'end'))
})

t.teardown = (task) => {
  running?.teardowns.unshift(task)
}

/** The exit code says it too: tap counts nothing more once a file has ended it. */
function fail(message: string, more: object = {}): void {
  process.exitCode = 1
  t.fail(message, more)
}

async function runFile(file: string): Promise<void> {
  running = { file: relative('.', file), ended: [], teardowns: [] }
  const { ended, teardowns } = running
  const counted = t.count
  t.setTimeout(LONGEST_MS) // counted from now on
  try {
    await import(pathToFileURL(resolve(file)).href)
    const hasTests = ended.length > 0 || t.count > counted // what is skipped is counted, and never begins
    if (!hasTests) throw new Error('it has no test')
    await Promise.all(ended)
    for (const teardown of teardowns) await teardown()
  } catch (error) {
    fail(`${running.file}: ${error}`, { found: error })
  }
}

const left = process.argv.slice(2)

/** Files that never ran are no success: where one ends the process, or leaves nothing to wait for in its middle. */
function failUnlessDone(): void {
  if (left.length > 0) fail(`the process ended before these files: ${left.splice(0).join(', ')}`)
}
process.once('beforeExit', failUnlessDone)
process.once('exit', failUnlessDone)

while (left[0]) {
  await runFile(left[0])
  left.shift()
}
running = undefined
