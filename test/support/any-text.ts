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

const IN_PATHS = "abcxyzABCXYZ019-._~!$&'()*+,;=:@/"
const URL_PART = fc.string({
  unit: fc.oneof(
    { arbitrary: fc.constantFrom(...IN_PATHS), weight: 4 },
    { arbitrary: CHARACTER.map(encodeURIComponent), weight: 1 },
  ),
})

/** URLs of the web, with any character escaped in them. fast-check's own, `webUrl`, makes such a table as well. */
export const anyUrl = (): fc.Arbitrary<string> =>
  fc
    .record({
      scheme: fc.constantFrom('http', 'https'),
      host: fc.domain(),
      path: URL_PART,
      query: fc.option(URL_PART),
      fragment: fc.option(URL_PART),
    })
    .map(
      ({ scheme, host, path, query, fragment }) =>
        `${scheme}://${host}${path && `/${path}`}${query === null ? '' : `?${query}`}${fragment === null ? '' : `#${fragment}`}`,
    )
