/**
 * Told to stop before it has everything that it served the last time, a process ends in order, and leaves it to the next.
 * Slow, because each start is a process of its own; draining.test.ts stops those that have started.
 */
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

const SLOW_FILE = new URL('./support/slow-file.js', import.meta.url)

const ROWS = Array.from({ length: 5 }, (_, at) => ({
  signal_ref: { scope: 'signal_source', signal_source_url: 'https://one.example/mcp', signal_id: `s${at}` },
  signal_agent_segment_id: `segment_${at}`,
  name: `Signal ${at}`,
  description: 'Shoppers who compared models',
  signal_type: 'owned',
  deployments: [{ type: 'platform', platform: 'dv360', is_live: true }],
}))

/** A server of one upstream that can be started again and again on one storage. */
async function prepared(t: Test) {
  const folder = await temporaryFolder(t)
  const { handle } = wholesaleAgent(ROWS, 'v1')
  let isSilent = false
  const agent = await startMcpAgent((task, args) => (isSilent ? new Promise(() => {}) : handle(task, args)))
  t.teardown(agent.close)
  const port = await reservedPort()
  const file = join(folder, 'tributary.json')
  const config = {
    listen: { port },
    upstreams: [{ id: 'one', url: agent.url }],
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata' },
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
  return { start, page, silence, folder }
}

test('a signal in the middle of a start that serves already ends it in order', async (t) => {
  const { start, page, silence, folder } = await prepared(t)
  const first = start()
  await first.printed(/5 signals in one feed/)
  first.process.kill('SIGTERM')
  t.equal((await first.finished).code, 0)
  const blobs = join(folder, 'data', 'blobs')
  const slice = (await readdir(blobs)).find((name) => name.startsWith('slice'))
  const held = (release: string) => ({
    NODE_OPTIONS: `--import=${SLOW_FILE}`,
    SLOW_FILE: join(blobs, String(slice)),
    SLOW_UNTIL: join(folder, release),
  })

  silence()
  const second = start(held('second goes on'))
  await until(page, (count) => count === 5)
  t.equal(second.out(), '', 'its start is not over')
  second.process.kill('SIGTERM')
  await writeFile(join(folder, 'second goes on'), '')
  t.match(await second.finished, { code: 0 })

  start(held('never'))
  t.equal(
    await until(page, (count) => count === 5),
    5,
    'the next one serves at once what the first served last',
  )
})
