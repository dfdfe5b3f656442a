/** The command line as a child process, with everything it prints. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { MAIN } from './program.js'

const LONGEST_MS = 120_000

export type Finished = { code: number | null; out: string; err: string }

export type Running = {
  process: ChildProcessWithoutNullStreams
  out(): string
  /** Resolves with the first match in what was printed to stdout; rejects when the process ends before. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
  finished: Promise<Finished>
}

/** It is killed after `longestMs`, whatever it does. `main`: the program's entry, of another build of it. */
export function startCommand(
  args: readonly string[],
  environment: Record<string, string> = {},
  { longestMs = LONGEST_MS, main = MAIN }: { longestMs?: number; main?: string } = {},
): Running {
  const child = spawn(process.execPath, [main, ...args], { env: { ...process.env, ...environment } })
  const timer = setTimeout(() => child.kill('SIGKILL'), longestMs)
  const waiting = new Set<() => void>()
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    for (const look of waiting) look()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  const finished = new Promise<Finished>((settle) => {
    child.on('close', (code) => {
      clearTimeout(timer)
      settle({ code, out, err })
    })
  })
  function printed(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((found, gone) => {
      const look = () => {
        const match = pattern.exec(out)
        if (!match) return
        waiting.delete(look)
        found(match)
      }
      waiting.add(look)
      look()
      void finished.then((end) => gone(new Error(`ended with ${end.code} first: ${end.err}${end.out}`)))
    })
  }
  return { process: child, out: () => out, printed, finished }
}

export const runCommand = (
  args: readonly string[],
  environment?: Record<string, string>,
): Promise<Finished> => startCommand(args, environment).finished
