/** A stream that commands print to, in the process of the test. */
export function createOutput() {
  const parts: string[] = []
  const out = { write: (part: string) => parts.push(part) > 0 } as unknown as NodeJS.WriteStream
  return { out, text: () => parts.join('') }
}
