/**
 * What work leaves behind that the young space's collections have not taken: bytes in the old space, which stay until that is
 * collected. For a process of its own, started with `--expose-gc`: a test runner's hooks would keep what they have seen.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { getHeapSpaceStatistics } from 'node:v8'

const TIMES = 500
const ROUNDS = 3
const A_COLLECTION = 50

const { gc } = globalThis as unknown as { gc(options: { type: 'minor' }): void }

const oldBytes = () =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')?.space_used_size ?? 0

/** Bytes that each time leaves: the least of some rounds, because compiled code is left in one of them alone. */
export async function leftOfEach(work: () => Promise<unknown>): Promise<number> {
  async function round(): Promise<number> {
    const before = oldBytes()
    for (let done = 1; done <= TIMES; done += 1) {
      await work()
      if (done % A_COLLECTION === 0) gc({ type: 'minor' })
    }
    return (oldBytes() - before) / TIMES
  }
  await round()
  const rounds: number[] = []
  while (rounds.length < ROUNDS) rounds.push(await round())
  return Math.min(...rounds)
}

type Left = readonly (readonly [what: string, bytes: number])[]

/** What the child of that module tells. */
export async function leftIn(module: URL): Promise<Left> {
  const [left] = await once(fork(fileURLToPath(module), { execArgv: ['--expose-gc'] }), 'message')
  return left as Left
}

/** In the child: tells what each leaves, and ends. */
export function tellLeft(left: Left): void {
  process.send?.(left, () => process.exit())
}
