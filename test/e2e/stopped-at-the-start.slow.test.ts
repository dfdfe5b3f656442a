/**
 * Told to stop before it has everything that it served the last time, a process ends in order, and leaves it to the next.
 * Slow, because each start is a process of its own; draining.test.ts stops those that have started.
 */
import { hash } from 'node:crypto'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { callTool } from '../support/call-tool.js'
import { startCommand } from '../support/command.js'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const OPERATOR_KEY = 'operator-key'
const SLOW_FILE = new URL('./support/slow-file.js', import.meta.url)

const ROWS = Array.from({ length: 5 }, (_, at) => ({
  signal_ref: { scope: 'signal_source', signal_source_url: 'https://one.example/mcp', signal_id: `s${at}` },
  signal_agent_segment_id: `segment_${at}`,
  name: `Signal ${at}`,
  description: 'Shoppers who compared models',
  signal_type: 'owned',
  deployments: [{ type: 'platform', platform: 'dv360', is_live: true }],
}))
const OTHER_ROWS = ROWS.slice(0, 2).map((row) => ({
  ...row,
  signal_ref: { ...row.signal_ref, signal_source_url: 'https://two.example/mcp' },
}))

/** A server of two upstreams, with five signals and two, that can be started again and again on one storage. */
async function prepared(t: Test) {
  const folder = await temporaryFolder(t)
  let isSilent = false
  async function upstream(id: string, rows: typeof ROWS) {
    const { handle } = wholesaleAgent(rows, 'v1')
    const agent = await startMcpAgent((task, args) => (isSilent ? new Promise(() => {}) : handle(task, args)))
    t.teardown(agent.close)
    return { id, url: agent.url }
  }
  const upstreams = [await upstream('one', ROWS), await upstream('two', OTHER_ROWS)]
  const port = await reservedPort()
  const file = join(folder, 'tributary.json')
  const config = {
    listen: { port },
    upstreams,
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      anonymous: 'metadata',
      keys: [{ id: 'operator', role: 'operator', token_sha256: hash('sha256', OPERATOR_KEY, 'hex') }],
    },
    storage: { url: `file:${join(folder, 'data')}` },
  }
  await writeFile(file, JSON.stringify(config))
  function start(environment: Record<string, string> = {}) {
    const server = startCommand(['serve', '--config', file], environment)
    t.teardown(async () => {
      server.process.kill('SIGKILL')
      await server.finished
    })
    return server
  }
  const page = () =>
    callTool<{ signals?: unknown[] }>(
      `http://127.0.0.1:${port}`,
      ...(['get_signals', { discovery_mode: 'wholesale' }, undefined] as const),
    ).then(
      ({ signals = [] }) => signals.length,
      () => undefined,
    )
  /** From now on the upstream answers nothing, so that nothing new is published. */
  function silence(): void {
    isSilent = true
  }
  /** Resolves with the status of the answer; undefined before there is a server. */
  const exclude = () =>
    fetch(`http://127.0.0.1:${port}/console/api/actions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ action: 'exclude-upstream', subject: 'one' }),
    }).then(
      ({ status }) => status,
      () => undefined,
    )
  /** The file of a blob: the slice of the second upstream, or the feed. */
  async function blob(of: 'slice' | 'feed'): Promise<string> {
    const folderOfBlobs = join(folder, 'data', 'blobs')
    const port = new URL(String(upstreams[1]?.url)).port
    const isIt = (name: string) =>
      of === 'feed' ? name === 'feed.blob' : name.startsWith('slice') && name.includes(port)
    return join(folderOfBlobs, String((await readdir(folderOfBlobs)).find(isIt)))
  }
  /** Starts it on a disk that opens these files when others are there. */
  const startSlow = (files: Record<string, string>) =>
    start({ NODE_OPTIONS: `--import=${SLOW_FILE}`, SLOW_FILES: JSON.stringify(files) })
  /** Has served all, and was stopped. */
  async function served(): Promise<void> {
    const server = start()
    await server.printed(/7 signals in one feed/)
    server.process.kill('SIGTERM')
    t.equal((await server.finished).code, 0)
  }
  return { served, startSlow, blob, page, silence, exclude, beside: (name: string) => join(folder, name) }
}

test('a signal in the middle of a start that serves already ends it in order', async (t) => {
  const { served, startSlow, blob, page, silence, beside } = await prepared(t)
  await served()
  silence()
  const slice = await blob('slice')
  const second = startSlow({ [slice]: beside('second goes on') })
  await until(page, (count) => count === 7)
  t.equal(second.out(), '', 'its start is not over')
  second.process.kill('SIGTERM')
  await writeFile(beside('second goes on'), '')
  t.match(await second.finished, { code: 0 })

  startSlow({ [slice]: beside('never') })
  t.equal(
    await until(page, (count) => count === 7),
    7,
    'the next one serves at once what the first served last',
  )
})

test('what an operator excludes before the saved feed is read is not shown from it', async (t) => {
  const { served, startSlow, blob, page, exclude, beside } = await prepared(t)
  await served()
  startSlow({ [await blob('feed')]: beside('feed'), [await blob('slice')]: beside('slice') })
  t.equal(await until(exclude, (status) => status !== undefined), 200)
  await writeFile(beside('feed'), '')
  const shown = new Set<number | undefined>()
  const look = async () => shown.add(await page())
  for (let looks = 0; looks < 100; looks += 1) await look()
  await writeFile(beside('slice'), '')
  await until(look, () => shown.has(2))
  t.notOk(shown.has(7))
})
