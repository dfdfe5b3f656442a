/** Reads the synonyms (`config/synonyms.yaml`): the one file that tunes what brief discovery understands. */
import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { compileCheck } from '../adcp/validation.js'
import { SynonymFile } from '../search/synonyms.js'

const check = compileCheck(SynonymFile)

/** Throws with the path and what is wrong there. */
export async function readSynonyms(path: string): Promise<SynonymFile> {
  const checked = check(parse(await readFile(path, 'utf8')))
  if (checked.ok) return checked.value
  const [issue] = checked.issues
  throw new Error(`${path}: ${issue?.pointer || 'the file'} ${issue?.message}`)
}
