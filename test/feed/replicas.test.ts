import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { versionsOf } from './versions-child.js'

test('equal content has equal versions, cursors and pages in another process, whatever came first there', (t) => {
  const child = fileURLToPath(new URL('./versions-child.js', import.meta.url))
  const theirs = execFileSync(process.execPath, [child, 'print'], { encoding: 'utf8', timeout: 120_000 })
  t.equal(theirs, versionsOf(false))
  t.end()
})
