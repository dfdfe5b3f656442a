/**
 * Loaded into a program before it starts: a disk that is slow to open some files. SLOW_FILES says in JSON for each of them which file
 * has to be there until it is opened.
 */
import { access } from 'node:fs/promises'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { until } from '../../support/until.js'

const files = createRequire(import.meta.url)('node:fs/promises') as typeof import('node:fs/promises')
const { open } = files
const slow = JSON.parse(process.env.SLOW_FILES ?? '{}') as Record<string, string>
const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

files.open = async (path, ...more) => {
  const awaited = slow[String(path)]
  if (awaited !== undefined) {
    await until(
      () => isThere(awaited),
      (is) => is,
    )
  }
  return await open(path, ...more)
}
syncBuiltinESMExports()
