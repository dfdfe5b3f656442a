/** A load that does not wait: so many requests a second, each at its time whatever became of those before. */
import { setTimeout as wait } from 'node:timers/promises'

const TICK_MS = 5
const SETTLE_MS = 60_000

/** As much of an answer as says what became of the request. */
type Outcome = { status?: string; message?: string; adcp_error?: { retry_after?: number } }
/** `ms`: of each that was answered, from when it was due. */
export type Tally = { sent: number; done: number; refused: number; failed: number; ms: number[] }

export function percentile(ms: readonly number[], share: number): number {
  const sorted = Float64Array.from(ms).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** Resolves when all are answered. The first that failed is printed. */
export async function offer(aSecond: number, seconds: number, send: () => Promise<Outcome>): Promise<Tally> {
  const tally: Tally = { sent: 0, done: 0, refused: 0, failed: 0, ms: [] }
  const open = new Set<Promise<void>>()
  const began = performance.now()

  async function one(dueAt: number): Promise<void> {
    const answer: Outcome = await send().catch((error: Error) => ({ status: 'lost', message: error.message }))
    tally.ms.push(performance.now() - dueAt)
    if (answer.status === 'completed') tally.done += 1
    else if (answer.status === 'refused' || answer.adcp_error?.retry_after !== undefined) tally.refused += 1
    else if (tally.failed++ === 0) console.error(`  first failure: ${JSON.stringify(answer).slice(0, 300)}`)
  }

  while (tally.sent < aSecond * seconds) {
    const due = Math.min(aSecond * seconds, Math.floor(((performance.now() - began) / 1_000) * aSecond))
    for (; tally.sent < due; tally.sent += 1) {
      const running: Promise<void> = one(began + (tally.sent / aSecond) * 1_000).finally(() =>
        open.delete(running),
      )
      open.add(running)
    }
    await wait(TICK_MS)
  }
  await Promise.race([Promise.all(open), wait(SETTLE_MS)])
  return tally
}
