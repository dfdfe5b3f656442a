/**
 * The program that tests start as a process of its own. `npm test` names the one that is installed; a test that is run
 * alone takes what was compiled, which needs no bundling to be as new as its sources.
 */
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const MAIN = resolve(
  process.env.TRIBUTARY_PROGRAM ?? fileURLToPath(new URL('../../src/main.js', import.meta.url)),
)
