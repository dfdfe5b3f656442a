/**
 * Finds a name that occurs twice in one object of a JSON text. Readers differ in which of the two counts, so a signed
 * body with a duplicate could mean two things under one signature (RFC 8259, section 4).
 */
const STRING = /"(?:[^"\\]|\\.)*"/y

/** Undoes escapes: "\u0061" is "a". */
function spelledOut(quoted: string): string | undefined {
  try {
    return JSON.parse(quoted) as string
  } catch {
    return undefined // a control character or a broken escape: not JSON
  }
}

/** The first such name; undefined when there is none or the text is not JSON, which the parser reports. */
export function repeatedName(body: Uint8Array): string | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()
  const open: (Set<string> | undefined)[] = [] // objects with the names seen in them; arrays without
  let expectsName = false
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]
    if (sign === '{' || sign === '[') open.push(sign === '{' ? new Set() : undefined)
    else if (sign === '}' || sign === ']') open.pop()
    if (sign === '{' || sign === ',') expectsName = open.at(-1) !== undefined
    if (sign !== '"') continue
    STRING.lastIndex = at
    const [quoted] = STRING.exec(text) ?? []
    if (quoted === undefined) return undefined
    at += quoted.length - 1
    if (!expectsName) continue
    expectsName = false
    const names = open.at(-1)
    const name = spelledOut(quoted)
    if (name === undefined) return undefined
    if (names?.has(name)) return name
    names?.add(name)
  }
  return undefined
}
