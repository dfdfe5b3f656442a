/** A Tributary that tells what changes in its feed, mirrors that listen, and a way between them on which a test loses things. */
import { generateKeyPairSync } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { type FeedMirrorOptions, openFeedMirror } from '../../../src/mirror/mirror.js'
import { startOver } from '../../support/federation-over.js'
import { startMcpAgent } from '../../support/upstream-agent.js'
import { wholesaleAgent } from '../../support/upstream-feed.js'
import type { Place } from './copies.js'

type Row = Record<string, unknown>
type Told = { wholesale_feed_version: string }
export type Fate = 'taken' | 'lost' | 'twice' | 'late'

const FAR = 'https://far.example'
const LONG_MS = 24 * 3_600_000
export const FAR_KEY = { keyId: 'far-key', privateKey: generateKeyPairSync('ed25519').privateKey }
const jwk = { ...FAR_KEY.privateKey.export({ format: 'jwk' }), kid: FAR_KEY.keyId }
const byId = (rows: Row[]) =>
  rows.sort((a, b) => (String(a.signal_agent_segment_id) < String(b.signal_agent_segment_id) ? -1 : 1))

/** What is posted here goes on to `leadTo`, as `fate` says. Challenges always do. */
async function startWay(t: Test) {
  let target = 0
  let fate = (): Fate => 'taken'
  let passed = 0
  let arrived = ''
  const late: (() => Promise<unknown>)[] = []
  async function pass(path: string, headers: IncomingHttpHeaders, body: Buffer) {
    const { host: _, connection: __, 'content-length': ___, ...rest } = headers
    const init = { method: 'POST', headers: rest as Record<string, string>, body }
    return await fetch(`http://127.0.0.1:${target}${path}`, init)
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const body = Buffer.concat(chunks)
      const isChallenge = request.headers['x-adcp-notification-type'] === undefined
      const what = isChallenge ? 'taken' : fate()
      if (!isChallenge) arrived = (JSON.parse(body.toString()) as Told).wholesale_feed_version
      const go = () => pass(request.url ?? '', request.headers, body).catch(() => undefined)
      if (what === 'late') late.push(go)
      if (what === 'lost' || what === 'late') return void response.writeHead(200).end()
      const reply = await go()
      if (what === 'twice') await go()
      const said = Buffer.from((await reply?.arrayBuffer()) ?? new ArrayBuffer(0))
      response.writeHead(reply?.status ?? 502, { 'content-type': 'application/json' }).end(said)
      if (!isChallenge) passed += 1
      for (const one of late.splice(0)) await one()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/told`,
    leadTo(port: number) {
      target = port
    },
    fateIs(next: () => Fate) {
      fate = next
    },
    passed: () => passed,
    /** To which version the last event led that came here, whatever became of it. */
    arrived: () => arrived,
  }
}

export type Way = Awaited<ReturnType<typeof startWay>>
export type Mirror = Awaited<ReturnType<typeof openFeedMirror>>

export async function startTelling(t: Test, rows: readonly Row[], more: object = {}) {
  const feed = wholesaleAgent(rows, 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'agent', url: agent.url }], {
    listen: { port: 0, public_url: FAR },
    events: { brand_json_url: `${FAR}/.well-known/brand.json`, signing_key: JSON.stringify(jwk) },
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
    ...more,
  })
  let version = 1
  const served = async () => {
    const { wholesale_feed_version: structure, pricing_version: prices } = await over.wholesale()
    return `${structure} ${prices}`
  }

  return {
    over,
    served,
    way: () => startWay(t),
    /** Resolves with the version when it is served: the rows must differ from those before. */
    async publish(next: readonly Row[]): Promise<string> {
      const before = await served()
      version += 1
      feed.publish(next, `v${version}`)
      await over.post('/refresh?upstream=agent')
      for (const end = Date.now() + 60_000; (await served()) === before; ) {
        if (Date.now() > end) throw new Error('it was never served')
        await wait(10)
      }
      return (await served()).split(' ')[0] as string
    },
    async feedNow(): Promise<Row[]> {
      const page = await over.wholesale({ pagination: { max_results: 100 } })
      return byId(page.signals as Row[])
    },
    /** A mirror that asks once a day. */
    async mirrorAt(place: Place, way: Way, more: Partial<FeedMirrorOptions> = {}) {
      const { out, format } = place
      const mirror = await openFeedMirror({
        ...{ url: `${FAR}/mcp`, token: 'a-buyer-key', out, format, everyMs: LONG_MS },
        listen: { url: way.url, port: 0, brand: 'acme.example' },
        egress: { hosts: { 'far.example': over.federation.url } },
        ...more,
      })
      t.teardown(mirror.close)
      way.leadTo(mirror.port ?? 0)
      return mirror
    },
    /** The urls that are told what changes. */
    async urls(): Promise<string[]> {
      const { accounts } = await over.call('list_accounts', {})
      return (accounts as { notification_configs?: { url: string }[] }[]).flatMap(
        ({ notification_configs = [] }) => notification_configs.map(({ url }) => url),
      )
    },
    /** How many subscriptions are active. */
    async subscribed(): Promise<number> {
      const { accounts } = await over.call('list_accounts', {})
      const all = (accounts as { notification_configs?: { active: boolean }[] }[]).flatMap(
        ({ notification_configs = [] }) => notification_configs,
      )
      return all.filter(({ active }) => active).length
    },
  }
}
