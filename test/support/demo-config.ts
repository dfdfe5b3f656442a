import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from './temporary-folder.js'

/**
 * The demo's configuration as a file in a new folder, where its storage is too; both go with the test. `change`: what else
 * is different. `port`: by default any free one.
 */
export async function demoConfig(
  t: { teardown(task: () => unknown): void },
  change: (text: string) => string = (text) => text,
  port = 0,
): Promise<{ folder: string; file: string }> {
  const folder = await temporaryFolder(t)
  const shipped = await readFile('config/sandbox.yaml', 'utf8')
  const own = shipped
    .replace('port: 8080', `port: ${port}`)
    .replace('file:./data/sandbox', `file:${folder}/data`)
  const file = join(folder, 'config.yaml')
  await writeFile(file, change(own))
  return { folder, file }
}
