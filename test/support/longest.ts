/** How long tests may take together with how much they try, so that trying more is never taken for hanging. */

/** How many times as many cases of a property are tried (test/support/proven.ts). */
export const SOAK = Number(process.env.SOAK ?? 1)

/** Of one file, for what hangs: no test counts on it, and a busy machine must not reach it. */
export const LONGEST_MS = 300_000 * SOAK
