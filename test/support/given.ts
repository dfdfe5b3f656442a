/**
 * What a person gave on the command line of a bench or of the tests. Words that cannot be read end the process with a sentence that
 * names the file whose head says what it takes, and with 2.
 */
import { relative } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

/** Ends the process. */
export function refuse(why: string): never {
  const source = relative('.', process.argv[1] ?? '')
    .replace(/^dist\//, '')
    .replace(/js$/, 'ts')
  console.error(
    `${why.replace(/\.? To specify a positional argument.*$/s, '')}; the head of ${source} says what it takes`,
  )
  process.exit(2)
}

/** Options by name, as `parseArgs` reads them. */
export function givenOptions<C extends ParseArgsConfig>(config: C): ReturnType<typeof parseArgs<C>> {
  try {
    return parseArgs(config)
  } catch (error) {
    return refuse((error as Error).message)
  }
}

/** A number that is not negative; `what` names it where it is none. */
export function numberOf(text: string, what: string): number {
  const number = text === '' ? Number.NaN : Number(text)
  return number >= 0 ? number : refuse(`${what}: expected a number, got ${JSON.stringify(text)}`)
}

/** The word at this place, from 0, as a number; `usual` where there is none. */
export function givenNumber(at: number, usual: number): number {
  const text = process.argv[at + 2]
  return text === undefined ? usual : numberOf(text, `argument ${at + 1}`)
}

/** All words as numbers; `usual` where there is none. */
export function givenNumbers(usual: readonly number[]): readonly number[] {
  const texts = process.argv.slice(2)
  return texts.length > 0 ? texts.map((_, at) => givenNumber(at, 0)) : usual
}
