/** What the machine itself costs, for whoever compares the figures of two: memory that a process has not had before. */
import { writeToNew } from './new-memory.js'
import { report } from './report.js'

const ROUNDS = 6
const ROUND_BYTES = 2 ** 29

const rounds = Array.from({ length: ROUNDS }, () => writeToNew(ROUND_BYTES))
report({
  what: '4 KB of new memory, first written to: the least of six rounds',
  measured: Math.min(...rounds),
  unit: 'us',
})
report({ what: '  the most', measured: Math.max(...rounds), unit: 'us' })
