/**
 * Runs test files one after another in this process: what they import is read once, and is warm from the second file on.
 *
 *     node --enable-source-maps dist/test/together.js dist/test/net/clock.test.js dist/test/net/time.test.js
 *
 * Every test is named with its file. A file has ended when its tests have, and what it asked `tap.teardown` for.
 *
 * `--tell`: what failed is said once more at the end, where no other program does so.
 *
 * With `--claims FOLDER` several processes are given the same files, and each runs those that no other has begun before.
 */
import './no-hooks.js' // before tap
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { t } from 'tap'
import { LONGEST_MS } from './support/longest.js'
import { tellFailures } from './support/tell-failures.js'

// Most of what tests run, they run seldom: a function is compiled for speed only after several times as much work as
// otherwise. Of tests with servers that saves a sixth of the processor's time. Node 24's engine has no such flag.
if (Number.parseInt(process.versions.node, 10) < 22) setFlagsFromString('--interrupt-budget=500000')

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

const {
  positionals: left,
  values: { claims, tell },
} = parseArgs({
  allowPositionals: true,
  options: { claims: { type: 'string' }, tell: { type: 'boolean' } },
})

/** Whether no other process has begun it. */
function isClaimed(file: string): boolean {
  if (claims === undefined) return true
  try {
    closeSync(openSync(join(claims, encodeURIComponent(file)), 'wx'))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/**
 * Files that never ran are no success: where one ends the process, or leaves nothing to wait for in its middle. Those behind
 * it are run by the processes that share them.
 */
function failUnlessDone(): void {
  const missed = left.splice(0).slice(0, claims === undefined ? undefined : 1)
  if (missed.length > 0) fail(`the process ended before these files: ${missed.join(', ')}`)
}
process.once('beforeExit', failUnlessDone)
process.once('exit', failUnlessDone)
if (tell) tellFailures()

while (left[0]) {
  if (isClaimed(left[0])) await runFile(left[0])
  left.shift()
}
running = undefined
