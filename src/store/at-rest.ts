/**
 * Whether a database file is as an orderly end left it: then it was sound when it was opened before, and reading all of
 * it again, which takes longer the longer the ledger is, tells nothing new.
 */
import { readFile, rm, stat, writeFile } from 'node:fs/promises'

const markOf = (file: string) => `${file}.closed`

/** Size and time of the last change; empty where there is no file. */
async function stateOf(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined)
  return found ? `${found.size} ${found.mtimeMs}` : ''
}

/** To be called when nothing will be written any more. A disk that does not take the mark costs a check. */
export async function markClosed(file: string): Promise<void> {
  await writeFile(markOf(file), await stateOf(file)).catch(() => {})
}

/** Whether nothing has touched the file since it was closed; the mark is used up. */
export async function wasClosed(file: string): Promise<boolean> {
  const marked = await readFile(markOf(file), 'utf8').catch(() => '')
  await rm(markOf(file), { force: true }).catch(() => {})
  return marked !== '' && marked === (await stateOf(file))
}
