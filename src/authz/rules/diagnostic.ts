/** What a provider should know about its file: parts that were skipped, and parts that look wrong but were used. */
export type Diagnostic = {
  /** RFC 6901 pointer into the file. */
  readonly at: string
  readonly effect: 'skipped' | 'noted'
  /** Our words only, without quotes from the file. */
  readonly message: string
}

const MAX_KEPT = 200 // a file that is wrong in every entry is understood from fewer

/** Collects up to the bound; `dropped` counts the rest. */
export function createDiagnostics() {
  const kept: Diagnostic[] = []
  let dropped = 0

  function add(at: string, effect: Diagnostic['effect'], message: string): void {
    if (kept.length < MAX_KEPT) kept.push({ at, effect, message })
    else dropped += 1
  }

  return { add, finish: () => ({ kept: kept as readonly Diagnostic[], dropped }) }
}
export type Diagnostics = ReturnType<typeof createDiagnostics>
