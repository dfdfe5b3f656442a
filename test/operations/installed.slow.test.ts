/** What the guide installs as a service, and what the image holds, runs: on this machine, under another root. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Test, test } from 'tap'
import { parse } from 'yaml'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { comesAlive, editedExample, printedBlocks, shell } from './support/printed.js'

const blockOf = async (begin: string) =>
  (await printedBlocks()).find(({ text }) => text.startsWith(begin))?.text ?? ''

/** A folder of the checkout: its packages as a link, since they are many; the rest as it is. */
async function copied(name: string, into: string): Promise<void> {
  await mkdir(dirname(join(into, name)), { recursive: true })
  if (name === 'node_modules') await symlink(resolve(name), join(into, name))
  else
    await cp(name === 'dist' ? 'dist/program' : name, join(into, name === 'dist' ? 'dist/program' : name), {
      recursive: true,
    })
}

/** Starts it with the production example, edited, and looks at the page and at what draws it. */
async function serves(t: Test, [program = '', ...args]: readonly string[], config: string): Promise<number> {
  const port = await reservedPort()
  const edited = editedExample(await readFile(config, 'utf8'), port, join(dirname(config), 'data'))
  await writeFile(config, edited.config)
  const command = program.endsWith('node') ? process.execPath : program
  const server = spawn(command, args, { cwd: '/', env: { ...edited.environment, NODE_ENV: 'production' } })
  let said = ''
  server.stderr.on('data', (text) => {
    said += text
  })
  t.teardown(async () => {
    if (server.exitCode !== null) return
    server.kill('SIGTERM')
    await once(server, 'exit')
  })
  t.ok(await comesAlive(port), `${args.join(' ')}: ${said}`)
  const page = await (await fetch(`http://127.0.0.1:${port}/`)).text()
  for (const [, path = ''] of page.matchAll(/(?:src|href)="([^"]+\.(?:js|css|svg))"/g)) {
    const { status } = await fetch(new URL(path, `http://127.0.0.1:${port}/`))
    t.equal(status, 200, path)
  }
  t.match(page, /<script/)
  return port
}

test('the service starts from what the guide copies, and its unit is one', async (t) => {
  const root = await temporaryFolder(t)
  const checkout = join(root, 'checkout')
  const under = (text: string) => text.replaceAll(/(?<=[ =])\/(opt|etc)\//g, `${root}/$1/`)
  const block = await blockOf('useradd --system')
  for (const [, names = ''] of block.matchAll(/^cp (?:-r )?(.*) \S+$/gm)) {
    for (const name of names.split(' ').filter((one) => !one.includes('/'))) await copied(name, checkout)
  }
  await mkdir(join(root, 'etc/systemd/system'), { recursive: true })
  // What changes the machine is only looked at.
  const asked = 'for one in useradd systemctl; do eval "$one() { echo $one \\"\\$@\\"; }"; done'
  const ended = await shell(`${asked}\n${under(block)}`, checkout, {})
  t.equal(ended.code, 0, ended.err)
  t.same(ended.out.trim().split('\n'), [
    'useradd --system --home-dir /var/lib/tributary tributary',
    'systemctl enable --now tributary',
  ])
  const unit = await readFile(join(root, 'etc/systemd/system/tributary.service'), 'utf8')
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
  t.equal(setting('User'), 'tributary')
  t.equal(`/var/lib/${setting('StateDirectory')}`, '/var/lib/tributary')
  await serves(
    t,
    under(` ${setting('ExecStart')}`)
      .trim()
      .split(' '),
    join(root, 'etc/tributary/config.yaml'),
  )

  /** Only what systemd says about ours: where it can check none here, it complains about any. */
  const verified = async (name: string, text: string) => {
    const file = join(root, name)
    await writeFile(file, text)
    return await shell(`systemd-analyze verify ${file}`, root, {})
  }
  const any = await verified('any.service', '[Service]\nExecStart=/bin/true\n')
  if (any.code !== 0) return t.comment(`the unit is not verified by systemd: ${any.err.split('\n')[0]}`)
  const ours = under(unit).replace('/usr/bin/node', process.execPath)
  t.match(await verified('tributary.service', ours), { code: 0, err: '' })
  const wrong = await verified('wrong.service', ours.replace('Restart=on-failure', 'Restart=sometimes'))
  t.match(wrong.err, /sometimes/, 'a wrong value would be told')
})

type Step = { word: string; rest: string }

test('the image is built from what is there, and holds what its command needs', async (t) => {
  const text = (await readFile('Dockerfile', 'utf8')).replaceAll('\\\n', '')
  const steps = [...text.matchAll(/^([A-Z]+) (.*)$/gm)].map(
    ([, word = '', rest = '']): Step => ({ word, rest }),
  )
  const copies = steps.filter(({ word }) => word === 'COPY')
  const letIn = (await readFile('.dockerignore', 'utf8')).trim().split('\n')
  t.equal(letIn.shift(), '*')
  for (const { rest } of copies.filter(({ rest }) => !rest.startsWith('--from'))) {
    for (const name of rest.split(' ').slice(0, -1))
      t.ok(letIn.includes(`!${name}`), `${name} reaches the builder`)
  }
  const compiled = JSON.parse(await readFile('tsconfig.json', 'utf8')).include as string[]
  for (const name of compiled)
    t.ok(
      copies.some(({ rest }) => rest === `${name} ./${name}`),
      `${name} is compiled`,
    )

  const app = await temporaryFolder(t)
  const last = steps.slice(steps.findLastIndex(({ word }) => word === 'FROM'))
  for (const { rest } of last.filter(({ word }) => word === 'COPY')) {
    const [from = '', to = ''] = rest.replace('--from=build /app/', '').split(' ')
    const name = to === './' ? from : to.replace('./', '')
    t.equal(name, from)
    await copied(name, app)
  }
  const only = (name: string) => last.find(({ word }) => word === name)?.rest ?? ''
  const started = [...parse(only('ENTRYPOINT')), ...parse(only('CMD'))] as string[]
  const mounted = /-v \S+:(\S+config\.yaml):ro/.exec(await blockOf('docker build'))?.[1]
  t.equal(started.at(-1), mounted, 'the configuration is where the command looks for it')
  const config = join(app, 'config.yaml')
  await cp('config/production.example.yaml', config)
  const [node = '', main = '', ...args] = started
  const port = await serves(t, [node, join(app, main), ...args.slice(0, -1), config], config)

  const [, healthy = ''] = /CMD (\[.*\])$/.exec(only('HEALTHCHECK')) ?? []
  const [, flag = '', script = ''] = JSON.parse(healthy) as string[]
  const probe = (code: string) => once(spawn(process.execPath, [flag, code]), 'exit').then(([code]) => code)
  t.equal(await probe(script.replace('8080', String(port))), 0, 'it is told alive')
  t.equal(await probe(script.replace('8080', String(await reservedPort()))), 1, 'and dead')
})
