/** How long `npm test` takes in a folder, its build included. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export async function timeTests(folder: string): Promise<{ seconds: number; havePassed: boolean }> {
  const startedAt = performance.now()
  const child = spawn('npm', ['test'], { cwd: folder, stdio: 'ignore' })
  const [ended] = (await once(child, 'exit')) as [number | null]
  return { seconds: (performance.now() - startedAt) / 1_000, havePassed: ended === 0 }
}
