import fc from 'fast-check'

const SURROGATES = { first: 0xd800, count: 0x800 }
const CODE_POINTS = 0x110000 - SURROGATES.count

const characterAt = (at: number): string =>
  String.fromCodePoint(at < SURROGATES.first ? at : at + SURROGATES.count)

function placeOf(character: unknown): number {
  const point = typeof character === 'string' ? character.codePointAt(0) : undefined
  if (point === undefined || String.fromCodePoint(point) !== character) throw new Error('no one character')
  return point < SURROGATES.first ? point : point - SURROGATES.count
}

const CHARACTER = fc.nat({ max: CODE_POINTS - 1 }).map(characterAt, placeOf)

/**
 * Texts of any characters. fast-check's own, `unit: 'binary'`, make a table of all million characters first, in every process
 * that uses them.
 */
export const anyText = (constraints: Omit<fc.StringConstraints, 'unit'> = {}): fc.Arbitrary<string> =>
  fc.string({ ...constraints, unit: CHARACTER })
