/**
 * The rows of two runs of the bench side by side, as a table: `npm run bench > before.txt` on one commit, the same on
 * another, then `node dist/bench/side-by-side.js before.txt after.txt`.
 */
import { readFileSync } from 'node:fs'
import { besides } from './report.js'

const [before, after] = process.argv.slice(2)
if (!before || !after) throw new Error('two files are needed: what the bench printed before, and after')
console.log(besides(readFileSync(before, 'utf8'), readFileSync(after, 'utf8')))
