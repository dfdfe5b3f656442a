/** Earlier commits of this checkout. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Unpacks a commit into a folder; false where the history does not reach back to it. */
export async function unpack(commit: string, folder: string): Promise<boolean> {
  const archive = join(folder, 'commit.tar')
  try {
    await run('git', ['archive', '--output', archive, commit])
  } catch {
    return false
  }
  await run('tar', ['-xf', archive, '-C', folder])
  return true
}
