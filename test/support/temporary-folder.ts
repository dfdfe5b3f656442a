import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Test = { teardown(task: () => unknown): void }

/**
 * An empty folder that goes with the test. Not `testdir` of tap, which names it after every file that shares the process: too
 * long a name for a file system.
 */
export async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}
