import { t } from 'tap'

/** tap's diagnostics of one failed assertion, without what only its source says. */
function printFailure(fullname: string, diagnostics: Record<string, unknown>): void {
  console.log(`not ok - ${fullname.replace(/^TAP > /, '')}`)
  for (const [name, value] of Object.entries(diagnostics)) {
    if (name === 'source' || name === 'at' || value === null) continue
    const text = typeof value === 'string' ? value.trimEnd() : (JSON.stringify(value) ?? String(value))
    console.log(`    ${name}: ${text.replaceAll('\n', '\n      ')}`)
  }
}

/**
 * Says at the end of the process what failed, because of a long log often only the end is kept. What the end itself leaves
 * unfinished tap says after it.
 */
export function tellFailures(): void {
  process.on('exit', () => {
    if (t.lists.fail.length > 0) console.log('\n# What failed:')
    for (const { fullname, diag } of t.lists.fail) printFailure(fullname, diag ?? {})
  })
}
