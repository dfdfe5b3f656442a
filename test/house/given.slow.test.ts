import { execFile } from 'node:child_process'
import { test } from 'tap'
import { ROOT } from './support/graph.js'

/** What a bench, or the runner of the tests, says and ends with. */
const run = (...args: string[]) =>
  new Promise<{ code: unknown; out: string; err: string }>((resolve) => {
    execFile(process.execPath, args, { cwd: ROOT }, (error, out, err) =>
      resolve({ code: error?.code, out, err }),
    )
  })

test('what cannot be read on the command line of a bench or the tests is told in one line', async (t) => {
  const wrong: readonly (readonly [args: string, said: RegExp])[] = [
    ['dist/bench/run.js --help', /Unknown option '--help'/],
    ['dist/bench/run.js nope', /no bench: nope; there are machine, /],
    ['dist/bench/run.js machine --minutes soon', /--minutes: expected a number, got "soon"/],
    ['dist/bench/beside.js', /--before FOLDER is needed/],
    ['dist/bench/beside.js --before /nowhere --only nope', /no part: nope; there are starts, /],
    ['dist/bench/beside.js --before /nowhere', /\/nowhere is no built checkout: ENOENT/],
    ['dist/bench/model.js --help', /argument 1: expected a number, got "--help"/],
    ['dist/bench/restart.js 10 many', /argument 2: expected a number, got "many"/],
    ['dist/test/run.js nope', /no folder of tests: nope; there are activation, /],
  ]
  for (const [args, said] of wrong) {
    const { code, out, err } = await run(...args.split(' '))
    t.match({ code, out, err }, { code: 2, out: '', err: said }, args)
    t.match(err, /^[^\n]+; the head of (bench|test)\/\w+\.ts says what it takes\n$/, args)
  }
})
