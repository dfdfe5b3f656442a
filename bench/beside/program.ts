/** One build of the product, known by nothing but its command line, its addresses and its process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import { freePort } from '../free-port.js'
import { ours } from '../ours.js'

export type Program = { folder: string; entry: string }
/** As much of an answer as is looked at. */
export type Answer = {
  wholesale_feed_version?: string
  pricing_version?: string
  pagination?: { total_count?: number; cursor?: string }
  signals?: { signal_agent_segment_id: string; pricing_options?: { pricing_option_id: string }[] }[]
  status?: string
}

const TICK_MS = 10 // of /proc/PID/stat (`getconf CLK_TCK`)
const POLL_MS = 10
const BOUND_MS = 120_000
const QUIET_MS = 500
const QUIET_SHARE = 0.08 // of a core: less is timers, polls of upstreams and the like

/** Ends a process, and waits for that. */
export async function end(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await gone
}

/** The program that a built checkout installs. */
export async function programIn(folder: string): Promise<Program> {
  const { bin } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    bin: { tributary: string }
  }
  const entry = join(folder, bin.tributary)
  await readFile(entry).catch(() => {
    throw new Error(`${entry} is not there: build that checkout first`)
  })
  return { folder, entry }
}

/** Members of /proc/PID/stat behind the name, which may hold spaces: ticks of CPU (user, system), and of ended children. */
function ticks(pid: number | 'self', ...at: number[]): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const members = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return at.reduce((sum, each) => sum + Number(members[each]), 0)
}

/** ms of CPU of a process since its start, its ended threads included. */
const lifeMs = (pid: number) => TICK_MS * ticks(pid, 11, 12)
/** ms of CPU of all our children that have ended. */
const endedChildrenMs = () => TICK_MS * ticks('self', 13, 14)

/** us of CPU of the threads that a process has now: finer than ticks, for what leaves the threads as they are. */
function threadMicros(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  return threads.reduce(
    (sum, thread) =>
      sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1_000,
    0,
  )
}

/** Runs a command to its end: seconds, and ms of CPU. No other child may end meanwhile. */
export async function runCommand({ entry }: Program, args: readonly string[]) {
  const cpu = endedChildrenMs()
  const since = performance.now()
  const child = spawn(process.execPath, [entry, ...args], { stdio: 'ignore' })
  await once(child, 'exit')
  return { seconds: (performance.now() - since) / 1_000, cpuMs: endedChildrenMs() - cpu }
}

/** Seconds until it holds, asked every few ms. */
export async function until(holds: () => Promise<boolean>, what: string): Promise<number> {
  const since = performance.now()
  while (!(await holds())) {
    if (performance.now() - since > BOUND_MS) throw new Error(`never: ${what}`)
    await wait(POLL_MS)
  }
  return (performance.now() - since) / 1_000
}

export const toolCall = (name: string, args: object): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })

/** A server that runs. */
export type Running = {
  url: string
  /** The answer to a task, get_signals unless named. Throws when there is none. */
  ask(args: object, token?: string, task?: string): Promise<Answer>
  /** Writes another configuration where the server reads its own. */
  rewrite(config: object): Promise<void>
  /** Since its start. */
  seconds(): number
  cpuMs(): number
  threadMicros(): number
  residentMb(): number
  /** Resolves when it has had nothing to do for a while, or when it seems never to. */
  quiet(): Promise<void>
  stop(): Promise<void>
}

async function ask(url: string, task: string, args: object, token: string | undefined): Promise<Answer> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(token && { authorization: `Bearer ${token}` }),
  }
  const reply = await request(`${url}/mcp`, { method: 'POST', headers, body: toolCall(task, args) })
  const text = await reply.body.text()
  const answer = reply.statusCode === 200 ? JSON.parse(text).result?.structuredContent : undefined
  if (!answer) throw new Error(`${url}: ${reply.statusCode} ${text.slice(0, 500)}`)
  return answer as Answer
}

async function isReady(url: string, child: ChildProcess): Promise<boolean> {
  if (child.exitCode !== null) throw new Error(`${child.spawnargs.join(' ')} ended with ${child.exitCode}`)
  const answer = await request(`${url}/readyz`).catch(() => undefined)
  await answer?.body.dump()
  return answer?.statusCode === 200
}

async function quiet(cpuMs: () => number): Promise<void> {
  for (let [lasts, last] = [0, cpuMs()]; lasts < BOUND_MS / 4; lasts += QUIET_MS) {
    await wait(QUIET_MS)
    const now = cpuMs()
    if (now - last < QUIET_SHARE * QUIET_MS) return
    last = now
  }
}

/** A folder, a port and a configuration for servers of one build, one after another: each finds what the one before kept. */
export async function prepare({ entry }: Program, config: object) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-beside-'))
  const file = join(folder, 'config.json')
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const storage = { url: `file:${join(folder, 'data')}` } // no key, which the first release does not know
  const rewrite = (changed: object) =>
    writeFile(file, JSON.stringify({ ...changed, listen: { port }, storage }))
  await rewrite(config)

  return {
    file,
    /** Resolves as soon as the server calls itself ready. */
    async start(): Promise<Running> {
      const since = performance.now()
      const child = ours(spawn(process.execPath, [entry, 'serve', '--config', file], { stdio: 'ignore' }))
      const pid = child.pid as number
      await until(() => isReady(url, child), `${entry} is ready`)
      return {
        url,
        ask: (args, token, task = 'get_signals') => ask(url, task, args, token),
        rewrite,
        seconds: () => (performance.now() - since) / 1_000,
        cpuMs: () => lifeMs(pid),
        threadMicros: () => threadMicros(pid),
        residentMb: () =>
          Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024,
        quiet: () => quiet(() => lifeMs(pid)),
        stop: () => end(child),
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
