/**
 * Loaded into a program before it starts: a disk that is slow to open the file SLOW_FILE. Whoever opens it waits until the file
 * SLOW_UNTIL is there.
 */
import { access } from 'node:fs/promises'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { until } from '../../support/until.js'

const files = createRequire(import.meta.url)('node:fs/promises') as typeof import('node:fs/promises')
const { open } = files
const { SLOW_FILE, SLOW_UNTIL = '' } = process.env
const isThere = () =>
  access(SLOW_UNTIL).then(
    () => true,
    () => false,
  )

files.open = async (path, ...more) => {
  if (path === SLOW_FILE) await until(isThere, (is) => is)
  return await open(path, ...more)
}
syncBuiltinESMExports()
