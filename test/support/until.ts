import { setTimeout as wait } from 'node:timers/promises'

const LIMIT_MS = 60_000 // a busy machine

/** Resolves with the first answer that holds; rejects with the last one when none does for so long, a minute by default. */
export async function until<T>(
  ask: () => Promise<T> | T,
  holds: (answer: T) => boolean,
  limitMs = LIMIT_MS,
): Promise<T> {
  for (const end = Date.now() + limitMs; ; await wait(20)) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (Date.now() > end)
      throw new Error(`not within ${limitMs} ms; the last answer: ${JSON.stringify(answer)}`)
  }
}
