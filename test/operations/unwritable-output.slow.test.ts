/** A full disk under what is printed: `/dev/full` takes no byte. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { MAIN } from '../support/program.js'
import { temporaryFolder } from '../support/temporary-folder.js'

const FULL = '/dev/full'
const skip = !existsSync(FULL) && `there is no ${FULL} here`

/** The program in a shell that redirects what it prints. */
const redirected = (args: string, to: string): ChildProcess =>
  spawn('bash', ['-c', `exec '${process.execPath}' '${MAIN}' ${args} ${to}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })

/** Resolves with the first match in a stream; with null when the stream ends before. */
async function firstIn(stream: NodeJS.ReadableStream | null, pattern: RegExp) {
  let text = ''
  for await (const part of stream ?? []) {
    text += part
    const found = pattern.exec(text)
    if (found) return found
  }
  return null
}

test('a command says that its output cannot be written', { skip }, async (t) => {
  const command = redirected('key', `>${FULL}`)
  let said = ''
  command.stderr?.on('data', (text) => {
    said += text
  })
  t.same(await once(command, 'close'), [1, null])
  t.match(said, /^tributary: the standard output cannot be written: ENOSPC: [^\n]*\n$/)
})

test('a server whose log cannot be written serves on', { skip }, async (t) => {
  const folder = await temporaryFolder(t)
  const config = join(folder, 'config.json')
  const storage = { url: `file:${folder}/data` }
  await writeFile(config, JSON.stringify({ listen: { port: 0 }, log: { level: 'debug' }, storage }))
  const server = redirected(`serve --config '${config}'`, `2>${FULL}`)
  t.teardown(() => server.kill('SIGKILL'))
  const ended = once(server, 'exit')
  const [, url] = (await firstIn(server.stdout, /(http:\S+)\/mcp/)) ?? []
  if (url === undefined) return t.fail('it ended before it served')
  for (const path of ['/nowhere', '/nowhere', '/readyz']) {
    t.equal((await fetch(`${url}${path}`)).status, path === '/readyz' ? 200 : 404, path)
  }
  server.kill('SIGTERM')
  t.same(await ended, [0, null], 'an orderly end')
})
