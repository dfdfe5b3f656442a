/**
 * `config/synonyms.yaml` in the form in which people edit it. It is a file of its own, because the thread that indexes needs
 * only the compiled synonyms and need not load the schema library.
 */
import { parse } from 'yaml'
import { compileCheck, type Static, Type } from '../adcp/schema.js'

const Words = Type.String({ minLength: 1, description: 'words parted by commas' })

const SynonymFile = Type.Object(
  {
    /** Filler words: a question made of them alone asks for everything. */
    filler: Words,
    /** Words about people's attitude to a subject, which do not name the subject. */
    qualifiers: Words,
    /** Words that mean the same. */
    same: Type.Array(Words),
    /** A general word, and specific words that a question for it should also find. */
    kinds: Type.Record(Type.String({ minLength: 1 }), Words),
    /** Country codes separated by spaces, and names besides the official ones. */
    places: Type.Record(Type.String({ pattern: '^[A-Z]{2}( [A-Z]{2})*$' }), Words),
    /** Ids of platforms, and their other names. */
    destinations: Type.Record(Type.String({ minLength: 1 }), Words),
  },
  { additionalProperties: false },
)
export type SynonymFile = Static<typeof SynonymFile>

const check = compileCheck(SynonymFile)

/** What the text of the file says. Throws with `path` and what is wrong there. */
export function parseSynonyms(text: string, path: string): SynonymFile {
  const checked = check(parse(text))
  if (checked.ok) return checked.value
  const [issue] = checked.issues
  throw new Error(`${path}: ${issue?.pointer || 'the file'} ${issue?.message}`)
}
