/**
 * Which words of a snapshot's list pass, worked out when a word is met. Upstreams may invent a word for every signal:
 * whoever asked must not wait for all of them, nor must anybody else.
 */
import { LRUCache } from 'lru-cache'
import { digestText } from '../snapshot/digest.js'
import type { Meter } from './steps.js'

const MOST_KNOWN = 256 // questions whose words are remembered, by list
const KNOWN_BYTES = 8 * 1024 * 1024
const WORD_UNITS = 4 // what a word costs that is met first, in signals looked at
const CHARACTERS_A_UNIT = 4

/** Whether the word of this number passes. What that costs is put down to `meter`, where work is done in portions. */
export type WordTest = (number: number, meter?: Meter) => boolean

const [PASSES, FAILS] = [1, 2]

function createTest(words: readonly string[], passes: (word: string) => boolean): WordTest {
  const known = new Uint8Array(words.length)
  return (number, meter) => {
    const found = known[number]
    if (found) return found === PASSES
    const word = words[number] as string
    meter?.did(WORD_UNITS + word.length / CHARACTERS_A_UNIT)
    const isPassing = passes(word)
    known[number] = isPassing ? PASSES : FAILS
    return isPassing
  }
}

const tests = new WeakMap<readonly string[], LRUCache<string, { test: WordTest; bytes: number }>>()

/** What is `asked` of a list names its test, and `make` gives what a word must pass. Each page asks the same again. */
export function wordTest(
  words: readonly string[],
  asked: readonly string[],
  make: () => (word: string) => boolean,
): WordTest {
  const ofList =
    tests.get(words) ??
    new LRUCache({ max: MOST_KNOWN, maxSize: KNOWN_BYTES, sizeCalculation: ({ bytes }) => bytes })
  tests.set(words, ofList)
  const text = JSON.stringify(asked)
  const key = digestText(text)
  const known = ofList.get(key)
  if (known) return known.test
  const test = createTest(words, make())
  ofList.set(key, { test, bytes: words.length + text.length }) // what a word must pass keeps what was asked
  return test
}
