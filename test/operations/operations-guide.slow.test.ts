import { spawn } from 'node:child_process'
import { copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Test, test } from 'tap'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { curlFinds } from './support/printed.js'

const GUIDE = 'docs/operations.md'
/** What a clean checkout starts with has happened when this test runs. */
const DONE_ALREADY = ['npm ci', 'npm run build']

/** The lines of all `sh` blocks, in order: the guide followed word by word. */
function commandsOf(guide: string): string[] {
  const blocks = [...guide.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] as string)
  return blocks.flatMap((block) => block.trim().split('\n'))
}

/** A checkout beside ours: the same program, its own configuration and folder. */
async function checkout(t: Test, port: number): Promise<string> {
  const folder = await temporaryFolder(t)
  for (const name of ['dist', 'node_modules', 'package.json'])
    await symlink(resolve(name), join(folder, name))
  await mkdir(join(folder, 'config'))
  const config = await readFile('config/sandbox.yaml', 'utf8')
  await writeFile(join(folder, 'config/sandbox.yaml'), config.replace('port: 8080', `port: ${port}`))
  await copyFile('config/production.example.yaml', join(folder, 'config/production.example.yaml'))
  return folder
}

type Ran = { code: number; command: string }

/** Runs the lines in one shell, as somebody who types them; gives how each ended. */
async function follow(
  t: Test,
  lines: readonly string[],
  folder: string,
  environment: Record<string, string>,
): Promise<{ ran: Ran[]; output: string }> {
  const script = lines.map((line) => {
    const said = JSON.stringify(line).replaceAll('$', '\\$')
    return line.endsWith('&') ? line : `${line}\nprintf '\\n::ended %s %s\\n' "$?" ${said}`
  })
  // Without the hooks of the test runner.
  const shell = spawn('env', ['-u', 'NODE_OPTIONS', 'bash', '-c', script.join('\n')], {
    cwd: folder,
    env: { ...process.env, ...environment },
    detached: true,
  })
  t.teardown(() => {
    if (shell.pid && shell.exitCode === null) process.kill(-shell.pid, 'SIGKILL') // its server too
  })
  let output = ''
  shell.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  shell.stderr.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  await new Promise((closed) => shell.on('close', closed))
  const ran = [...output.matchAll(/^::ended (\d+) (.*)$/gm)].map(([, code, command]) => ({
    code: Number(code),
    command: command as string,
  }))
  return { ran, output }
}

test('the operations guide works as it is written', { timeout: 300_000 }, async (t) => {
  const port = await reservedPort()
  const folder = await checkout(t, port)
  const guide = await readFile(GUIDE, 'utf8')
  const commands = commandsOf(guide)
  t.same(commands.slice(0, DONE_ALREADY.length), DONE_ALREADY)
  const lines = commands.slice(DONE_ALREADY.length)
  t.ok(lines.length > 10, 'there is something to follow')

  const { ran, output } = await follow(t, lines, folder, await curlFinds(folder, port))
  const foreground = lines.filter((line) => !line.endsWith('&'))
  t.same(
    ran.map(({ command }) => command),
    foreground,
    'every line was run',
  )
  for (const { code, command } of ran) {
    const [, expected = '0'] = /# exit (\d)/.exec(command) ?? []
    t.equal(code, Number(expected), command)
  }
  t.match(output, /"status":"ready"/)
  t.match(output, /nothing_published/)
  const revisions = [...output.matchAll(/"configuration":{"revision":"(\w+)"/g)].map(
    ([, revision]) => revision,
  )
  t.equal(revisions.length, 2, 'before and after the reload')
  t.match(await readFile(join(folder, 'metrics.txt'), 'utf8'), /tributary_upstream_state/)
})

test('every alert has a section in the guide, and every exit code a line', async (t) => {
  const guide = await readFile(GUIDE, 'utf8')
  const alerts = [...(await readFile('deploy/alerts.yaml', 'utf8')).matchAll(/- alert: (\w+)/g)].map(
    ([, name]) => name,
  )
  const sections = [...guide.matchAll(/^### (Tributary\w+)$/gm)].map(([, name]) => name)
  t.same(sections, alerts)
  const { EXIT } = await import('../../src/commands/terminal.js')
  for (const code of [0, ...Object.values(EXIT)]) t.match(guide, new RegExp(`^\\| ${code} \\|`, 'm'))
})

test('every reason of explain has a row in its page', async (t) => {
  const page = await readFile('docs/explain.md', 'utf8')
  const { WHY } = await import('../../src/explain/remedies.js')
  const rows = [...page.matchAll(/^\| `(\w+)` \|/gm)].map(([, word]) => word)
  t.same(rows.sort(), Object.keys(WHY).sort())
})
