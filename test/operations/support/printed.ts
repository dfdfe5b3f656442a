/** What the README and the pages print for a shell, and a shell to run it in, whose demo server listens on another port. */
import { spawn } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

export type Block = { page: string; kind: string; text: string }

/** Blocks of kind `sh` can be followed as they stand; those of kind `console` show what to type once something was done. */
export async function printedBlocks(): Promise<Block[]> {
  const docs = (await readdir('docs', { recursive: true })).filter((name) => name.endsWith('.md'))
  const pages = ['README.md', ...docs.map((name) => `docs/${name}`)]
  const found = await Promise.all(
    pages.map(async (page) => {
      const text = await readFile(page, 'utf8')
      return [...text.matchAll(/^```(sh|bash|shell|console)\n([\s\S]*?)^```$/gm)].map(
        ([, kind = '', block = '']) => ({ page, kind, text: block.trim() }),
      )
    }),
  )
  return found.flat()
}

/**
 * Environment in which curl finds the server of a test where the pages say that the demo listens: what is printed is run
 * without a change of a letter.
 */
export async function curlFinds(folder: string, port: number): Promise<{ CURL_HOME: string }> {
  await writeFile(join(folder, '.curlrc'), `connect-to = "127.0.0.1:8080:127.0.0.1:${port}"\n`)
  return { CURL_HOME: folder }
}

export type Ended = { code: number | null; out: string; err: string }

/** Runs a script in a shell that ends at the first error. `onPrint` is told all that was printed, and how to press Ctrl-C. */
export function shell(
  script: string,
  cwd: string,
  environment: Record<string, string>,
  onPrint?: (printed: string, interrupt: () => void) => void,
): Promise<Ended> {
  const env = { ...process.env, ...environment }
  delete env.NODE_OPTIONS // hooks of the test runner
  const child = spawn('bash', ['-c', `set -eo pipefail\n${script}`], { cwd, env, detached: true })
  const interrupt = () => void process.kill(-(child.pid as number), 'SIGINT') // as Ctrl-C: the whole group
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
    onPrint?.(out, interrupt)
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    err += text
  })
  return new Promise((ended) => child.on('close', (code) => ended({ code, out, err })))
}

type Edited = { config: string; environment: Record<string, string> }

/** The production example as an operator edits it: a port, a storage, and a value for each name that it takes. */
export function editedExample(text: string, port: number, storage: string): Edited {
  const names = [...new Set([...text.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name))]
  return {
    config: text
      .replace('host: 0.0.0.0', 'host: 127.0.0.1')
      .replace('port: 8080', `port: ${port}`)
      .replace('file:/var/lib/tributary', `file:${storage}`),
    environment: Object.fromEntries(
      names.map((name, at) => [name, name.endsWith('SHA256') ? String(at).padStart(64, '0') : `value-${at}`]),
    ),
  }
}

/** Whether a server comes alive there within a minute. */
export async function comesAlive(port: number): Promise<boolean> {
  for (const end = Date.now() + 60_000; Date.now() < end; await wait(50)) {
    const reply = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined)
    if (reply?.ok) return true
  }
  return false
}
