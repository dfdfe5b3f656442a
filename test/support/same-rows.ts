import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'

/**
 * That many rows are these, to the last member. tap's own comparison writes down both sides as it goes, for the report of a
 * failure, which takes longer than to read the rows: it is asked where they differ alone.
 */
export function sameRows(
  t: Test,
  found: readonly unknown[],
  wanted: readonly unknown[],
  what = 'the rows',
): void {
  if (isDeepStrictEqual(found, wanted)) t.pass(what)
  else t.strictSame(found, wanted, what)
}
