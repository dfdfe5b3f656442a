/** The subscriber of docs/events.md, as it stands there, against a running Tributary. */
import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { startOver } from '../support/federation-over.js'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid: 'events-key' }

test('the subscriber of the page about events holds the feed', async (t) => {
  const feed = wholesaleAgent([row(1), row(2)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url }], {
    events: {
      brand_json_url: 'https://operator.example/.well-known/brand.json',
      signing_key: JSON.stringify(jwk),
    },
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
  })
  const page = await readFile('docs/events.md', 'utf8')
  const [, code = ''] = /^```js\n(.*?)^```/ms.exec(page) ?? []
  t.ok(code.trim().split('\n').length <= 40, 'it has forty lines')
  const file = join(await temporaryFolder(t), 'subscriber.mjs')
  await writeFile(file, code)
  let out = ''
  let errors = ''
  let child: ChildProcess | undefined
  t.teardown(() => child?.kill())
  /** Again at another port when somebody else took the free one first. */
  async function startChild(): Promise<void> {
    const port = await reservedPort()
    errors = ''
    child = spawn(process.execPath, [
      ...[file, over.federation.url, 'a-buyer-key'],
      ...[`http://127.0.0.1:${port}/`, String(port)],
    ])
    child.stdout?.on('data', (text) => {
      out += text
    })
    child.stderr?.on('data', (text) => {
      errors += text
    })
    child.on('exit', () => {
      if (errors.includes('EADDRINUSE')) void startChild()
    })
  }
  await startChild()
  const says = async (signals: number) => {
    for (const end = Date.now() + 60_000; ; ) {
      const { wholesale_feed_version: version } = await over.wholesale()
      if (out.includes(`${signals} ${version}`)) return
      if (Date.now() > end) throw new Error(`it never had ${signals} signals: ${out} ${errors}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await says(2)
  feed.publish([row(1, { name: 'New name' }), row(3), row(4)], 'v2')
  await over.post('/refresh?upstream=north')
  await says(3)
  feed.publish(
    Array.from({ length: 30 }, (_, at) => row(at + 100)),
    'v3',
  )
  await over.post('/refresh?upstream=north')
  await says(30)
})
