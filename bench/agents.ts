import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { ours } from './ours.js'

const SCRIPT = fileURLToPath(new URL('upstreams-agents.js', import.meta.url))

export type Agents = { child: ChildProcess; urls: string[] }

/** Starts a process of `agents` agents with `rows` signals each (bench/upstreams-agents.ts). It ends no later than this one. */
export async function startAgents(agents: number, rows: number): Promise<Agents> {
  const child = ours(
    spawn(process.execPath, [SCRIPT, String(agents), String(rows)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  )
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, urls: JSON.parse(line.toString()) as string[] }
}
