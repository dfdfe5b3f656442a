/** A start that fails in the middle tells what is wrong and nothing else: no part asks for one that was not made. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { runCommand } from '../support/command.js'
import { temporaryFolder } from '../support/temporary-folder.js'

const EDITED = `
  import fs from 'node:fs/promises'
  import { syncBuiltinESMExports } from 'node:module'
  const { readFile } = fs
  fs.readFile = async (path, ...how) =>
    String(path).endsWith('synonyms.yaml') ? 'groups: [[' : readFile(path, ...how)
  syncBuiltinESMExports()`

test('a start with a wrong file of synonyms says so', async (t) => {
  const folder = await temporaryFolder(t)
  const file = join(folder, 'tributary.json')
  const storage = { url: `file:${join(folder, 'data')}` }
  await writeFile(file, JSON.stringify({ listen: { port: 0 }, callers: { anonymous: 'metadata' }, storage }))
  const { code, err } = await runCommand(['serve', '--config', file], {
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(EDITED)}`,
  })
  t.equal(code, 3)
  t.match(err, /^tributary: .*synonyms\.yaml: .* at line 1, column 11/)
  t.notMatch(err, /"level"|initialization| at .*\.js/)
})
