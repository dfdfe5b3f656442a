/** What was found for a text, for when it comes again: few distinct parts stand in millions of rows. */

const LONGEST = 512 // of a text that is kept: longer ones hardly come again
const MOST = 500_000 // characters of the texts in one map
const EACH = 100 // for what an entry takes besides its text

/**
 * The same function, which remembers what it gave for short texts. What was not asked for while as many others came is
 * forgotten: two maps know that without a list of who was asked when.
 */
export function remembered<T extends object | string | boolean>(
  make: (text: string) => T,
): (text: string) => T {
  let recent = new Map<string, T>()
  let earlier = recent
  let size = 0
  return (text) => {
    const known = recent.get(text)
    if (known !== undefined) return known
    const value = earlier.get(text) ?? make(text)
    if (text.length > LONGEST) return value
    if (size > MOST) {
      earlier = recent
      recent = new Map()
      size = 0
    }
    size += text.length + EACH
    recent.set(Buffer.from(text).toString(), value) // a copy: a part of a text keeps the whole
    return value
  }
}
