/**
 * The stem of a word, by Porter's published rules (An algorithm for suffix stripping, 1980) and one rule of ours for people named by
 * what they do, so that "shoppers", "shopping" and "shop" become one term.
 */

const VOWEL = '(?:[aeiou]|(?<=[^aeiou])y)'
const CONSONANT = '(?:[^aeiouy]|(?<![^aeiou])y)'
/** The measure of a stem: how often a consonant follows a vowel in it. */
const MEASURE_OVER_0 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}`)
const MEASURE_OVER_1 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}+${CONSONANT}`)
const MEASURE_IS_1 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}*$`)
const HAS_VOWEL = new RegExp(VOWEL)
const DOUBLE_END = /([^aeiouylsz])\1$/
const SHORT_END = new RegExp(`${CONSONANT}${VOWEL}[^aeiouywx]$`)

type Rules = readonly (readonly [suffix: string, replacement: string])[]

const STEP_2: Rules = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['izer', 'ize'],
  ['bli', 'ble'],
  ['alli', 'al'],
  ['entli', 'ent'],
  ['eli', 'e'],
  ['ousli', 'ous'],
  ['ization', 'ize'],
  ['ation', 'ate'],
  ['ator', 'ate'],
  ['alism', 'al'],
  ['iveness', 'ive'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['aliti', 'al'],
  ['iviti', 'ive'],
  ['biliti', 'ble'],
  ['logi', 'log'],
]
const STEP_3: Rules = [
  ['icate', 'ic'],
  ['ative', ''],
  ['alize', 'al'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ful', ''],
  ['ness', ''],
]
const STEP_4 =
  /^(.*?)(?:ement|ment|ent|al|ance|ence|er|ic|able|ible|ant|(?<=[st])ion|ou|ism|ate|iti|ous|ive|ize)$/

/** Words whose stem would collide with another word of advertising, and irregular plurals. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ['news', 'news'],
  ['business', 'business'],
  ['businesses', 'business'],
  ['organization', 'organization'],
  ['organizations', 'organization'],
  ['university', 'university'],
  ['universities', 'university'],
  ['policy', 'policy'],
  ['policies', 'policy'],
  ['generation', 'generation'],
  ['generations', 'generation'],
  ['animal', 'animal'],
  ['animals', 'animal'],
  ['flower', 'flower'],
  ['flowers', 'flower'],
  ['corner', 'corner'],
  ['poster', 'poster'],
  ['number', 'number'],
  ['numbers', 'number'],
  ['men', 'man'],
  ['women', 'woman'],
  ['children', 'child'],
])

function withoutPlural(word: string): string {
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2)
  return /[^s]s$/.test(word) ? word.slice(0, -1) : word
}

function withoutPast(word: string): string {
  if (word.endsWith('eed')) return MEASURE_OVER_0.test(word.slice(0, -3)) ? word.slice(0, -1) : word
  const [, stem] = /^(.*)(?:ed|ing)$/.exec(word) ?? []
  if (stem === undefined || !HAS_VOWEL.test(stem)) return word
  if (/(?:at|bl|iz)$/.test(stem)) return `${stem}e`
  if (DOUBLE_END.test(stem)) return stem.slice(0, -1)
  return MEASURE_IS_1.test(stem) && SHORT_END.test(stem) ? `${stem}e` : stem
}

function replaced(word: string, rules: Rules): string {
  for (const [suffix, replacement] of rules) {
    if (!word.endsWith(suffix)) continue
    const stem = word.slice(0, -suffix.length)
    return MEASURE_OVER_0.test(stem) ? stem + replacement : word
  }
  return word
}

function withoutEnding(word: string): string {
  const [, stem] = STEP_4.exec(word) ?? []
  return stem !== undefined && MEASURE_OVER_1.test(stem) ? stem : word
}

function tidied(word: string): string {
  let tidy = word
  if (word.endsWith('e')) {
    const stem = word.slice(0, -1)
    if (MEASURE_OVER_1.test(stem) || (MEASURE_IS_1.test(stem) && !SHORT_END.test(stem))) tidy = stem
  }
  return tidy.endsWith('ll') && MEASURE_OVER_1.test(tidy) ? tidy.slice(0, -1) : tidy
}

/** "viewer" -> "view", "planner" -> "plan": Porter does not shorten words with such short stems. */
function withoutAgent(word: string): string {
  const [, stem] = /^(\w{3,}[^aeiou])er$/.exec(word) ?? []
  if (stem === undefined || !HAS_VOWEL.test(stem)) return word
  return DOUBLE_END.test(stem) ? stem.slice(0, -1) : stem
}

/** The term of one token of `tokens`: its stem, or the token itself when it is a span or has other letters than a-z. */
export function termOf(word: string): string {
  if (word.length < 3 || !/^[a-z]+$/.test(word)) return word
  const exception = EXCEPTIONS.get(word)
  if (exception !== undefined) return exception
  let now = withoutPast(withoutAgent(withoutPlural(word)))
  if (now.endsWith('y') && HAS_VOWEL.test(now.slice(0, -1))) now = `${now.slice(0, -1)}i`
  return tidied(withoutEnding(replaced(replaced(now, STEP_2), STEP_3)))
}
