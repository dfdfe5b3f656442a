/**
 * What the machine itself costs, for whoever compares the figures of two: memory that a process has not had before. The
 * system hands it out in pages of 4 KB as each is first written to. Where a host lends memory to its guests, what lay idle
 * for seconds was taken back and costs several times as much.
 */
import { report } from './report.js'

const ROUNDS = 6
const ROUND_BYTES = 2 ** 29
const CHUNK = 8 * 1024 * 1024
const PAGE = 4_096

/** Kept, so that no round meets memory of the round before it. */
const chunks: Uint8Array[] = []

/** Us a page. */
function touched(): number {
  const startedAt = performance.now()
  for (let bytes = 0; bytes < ROUND_BYTES; bytes += CHUNK) {
    const chunk = new Uint8Array(new SharedArrayBuffer(CHUNK))
    for (let at = 0; at < CHUNK; at += PAGE) chunk[at] = 1
    chunks.push(chunk)
  }
  return ((performance.now() - startedAt) / (ROUND_BYTES / PAGE)) * 1_000
}

const rounds = Array.from({ length: ROUNDS }, touched)
report({
  what: '4 KB of new memory, first written to: the least of six rounds',
  measured: Math.min(...rounds),
  unit: 'us',
})
report({ what: '  the most', measured: Math.max(...rounds), unit: 'us' })
