/** Plays a corpus against a whole process until every stranger has been read, and tells what came of it. */
import type { Hostile } from './corpus.js'
import { GONE, startAmong } from './process.js'
import { startStrangers } from './stranger.js'

export type Played = {
  alive: boolean
  /** Strangers that were not read in time. */
  unread: string[]
  unhealthy: number
  lies: string[]
  leaks: string[]
  /** Of the serving thread since it could serve, ms. */
  longestStopMs: number
  peakRssMb: number
}

type Test = { teardown(task: () => unknown): void }

export async function play(t: Test, corpus: readonly Hostile[], boundMs: number): Promise<Played> {
  const strangers = await startStrangers(corpus)
  t.teardown(strangers.close)
  const among = await startAmong(strangers.origin, corpus)
  t.teardown(among.close)
  const end = Date.now() + boundMs
  let unread = ['all']
  let unhealthy = 0
  while (unread.length > 0 && among.alive() && Date.now() < end) {
    if (!(await among.healthy().catch(() => false))) unhealthy += 1
    unread = await among.starting().catch(() => unread)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  // What has been read is published a little later, on a busy machine much later.
  let lies = await among.lies()
  while (lies.join() === GONE && among.alive() && Date.now() < end) lies = await among.lies()
  const { longestMs } = await among.stops()
  const { text } = await among.ask('/metrics')
  const rss = Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1] ?? Number.NaN)
  return {
    ...{ alive: among.alive(), unread, unhealthy },
    lies,
    leaks: await among.leaks(),
    longestStopMs: longestMs,
    peakRssMb: rss / 1024 ** 2,
  }
}
