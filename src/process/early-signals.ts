/**
 * What signals do to a server before it has heard of them itself. Node would end the process by the signal, while code is loaded
 * and the configuration is read. Nothing is open yet, so the server is told to stop and has nothing to finish: it ends with 0.
 * This is run before any other code (`bundle.js`, main.ts), so it imports nothing.
 */

/** Those that tell a server to stop. */
export const STOPS = ['SIGINT', 'SIGTERM'] as const
/** The program has this file twice: beside it, where it is run first, and inside. */
const HELD = Symbol.for('tributary.early-signals')

type Holder = typeof globalThis & { [HELD]?: () => void }

/** From now on `serve` ends with 0 when it is told to stop. Other commands end as Node ends them. */
export function holdSignals(): void {
  const holder: Holder = globalThis
  if (process.argv[2] !== 'serve' || holder[HELD]) return
  const end = () => process.exit(0)
  process.on('SIGHUP', () => {}) // the file is yet to be read
  for (const each of STOPS) process.on(each, end)
  holder[HELD] = () => {
    for (const each of STOPS) process.off(each, end)
  }
}

/** The caller listens to them by now, so that none is lost between the two. */
export function releaseSignals(): void {
  const holder: Holder = globalThis
  holder[HELD]?.()
}
