/** An agent, a Tributary over it, and a second one over the first, which is told what changes. */
import { generateKeyPairSync, hash } from 'node:crypto'
import { createServer } from 'node:http'
import type { Test } from 'tap'
import { startOver } from '../../support/federation-over.js'
import { startMcpAgent } from '../../support/upstream-agent.js'
import { wholesaleAgent } from '../../support/upstream-feed.js'
import { row } from '../../support/upstream-world.js'

const FAR = 'https://far.example'
const NEAR = 'https://near.example'
/** With which the near one is a buyer of the far one. */
export const UPSTREAM_KEY = 'the-key-of-the-near-one'
export const newKey = (keyId: string) => ({ keyId, privateKey: generateKeyPairSync('ed25519').privateKey })
export type Key = ReturnType<typeof newKey>

/** A place that is known before who listens there has started: what comes is passed on. */
async function forwarder(t: Pick<Test, 'teardown'>) {
  let leadTo = (_origin: string) => {}
  const target = new Promise<string>((resolve) => {
    leadTo = resolve
  })
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers
      const reply = await fetch((await target) + request.url, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: Buffer.concat(chunks),
      }).catch(() => undefined) // whoever listened there has ended
      if (!reply) return response.writeHead(502).end()
      const challenge = reply.headers.get('www-authenticate')
      response.writeHead(reply.status, {
        'content-type': 'application/json',
        ...(challenge && { 'www-authenticate': challenge }),
      })
      response.end(await reply.text())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    return closed
  })
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}`, leadTo }
}

const eventsOf = (origin: string, { keyId, privateKey }: Key) => ({
  brand_json_url: `${origin}/.well-known/brand.json`,
  signing_key: JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: keyId }),
})

/** An agent, a Tributary over it, and a second one over the first: a change at the agent is polled by nobody near. */
export async function startChain(t: Pick<Test, 'teardown'>) {
  const feed = wholesaleAgent([row(1), row(2)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const place = await forwarder(t)
  const [farKey, nearKey] = [newKey('far-key'), newKey('near-key')]
  const networks = { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] }
  const far = await startOver(t, [{ id: 'agent', url: agent.url }], {
    listen: { port: 0, public_url: FAR },
    events: eventsOf(FAR, farKey),
    egress: networks,
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'near', token_sha256: hash('sha256', UPSTREAM_KEY, 'hex') },
        { id: 'operator', token_sha256: hash('sha256', 'an-operator-key', 'hex'), role: 'operator' },
      ],
    },
  })
  const auth = { type: 'bearer', token: UPSTREAM_KEY }
  const near = await startOver(t, [{ id: 'far', url: `${FAR}/mcp`, auth }], {
    listen: { port: 0, public_url: NEAR, trusted_proxies: ['127.0.0.0/8'] },
    events: { ...eventsOf(NEAR, nearKey), public_url: place.url },
    egress: { ...networks, hosts: { 'far.example': far.federation.url } },
    defaults: { refresh: '1h', stale_after: '2h' },
  })
  place.leadTo(near.federation.url)
  const metricOf = async (where: typeof far, name: string) => {
    const text = await (await where.get('/metrics')).text()
    const line = text.split('\n').find((one) => one.startsWith(name))
    return Number(line?.split(' ').at(-1) ?? 0)
  }
  const metric = (name: string) => metricOf(near, name)
  const listens = async () => (await metric('tributary_upstream_events_total{outcome="challenge"}')) >= 1
  for (const end = Date.now() + 60_000; !(await listens()); ) {
    if (Date.now() > end) throw new Error('the near one never subscribed')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  let version = 1
  return {
    ...{ far, near, farKey, place: place.url, metric },
    /** How often the far one was asked for signals. */
    asked: () => metricOf(far, 'tributary_task_calls_total{task="get_signals"'),
    async publish(rows: Record<string, unknown>[]) {
      version += 1
      feed.publish(rows, `v${version}`)
      await far.post('/refresh?upstream=agent')
    },
  }
}
