/**
 * What forged, replayed and other tenants' events cost whoever is listening, against a page of fifty signals that the same process
 * serves: CPU of the server for each request, over HTTP. `node dist/bench/forged-events.js`
 */
import { fork } from 'node:child_process'
import crypto, { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createReceiver } from '../src/events/receiver.js'
import { createFeed } from '../src/feed/feed.js'
import { WEBHOOKS } from '../src/signing/profile.js'
import { createReplayGuard } from '../src/signing/replay.js'
import { createSigner, publicJwk } from '../src/signing/sign.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { benchSlice } from './feed-world.js'
import { report } from './report.js'

const REQUESTS = 3_000
const WARM = 500
const AGENT = 'https://far.example/mcp'
const judge = () => ({
  stamp: 'all',
  policy: 'observe' as const,
  decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
  definition: () => undefined,
})

type Job = { port: number; path: string; headers: Record<string, string>; body: string; count: number }

/** Sends one request so many times, one after the other. */
async function send({ port, path, headers, body, count }: Job): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    const asked = request({ port, path, method: 'POST', headers }).end(body)
    const [reply] = (await once(asked, 'response')) as [NodeJS.ReadableStream]
    await once(reply.resume(), 'end')
  }
}

async function bench(): Promise<void> {
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const numbers = Array.from({ length: 1_000 }, (_, at) => at)
  feed.publish(buildSnapshot({ slices: [benchSlice(0, numbers, (n) => n % 40)], judge }), Date.now())
  const key = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const jwk = publicJwk(key)
  const place = {
    ...{ sender: { agentUrl: AGENT, brandJsonUrl: '' }, url: 'https://near.example/told' },
    ...{ subscriberId: 'tributary', types: [], isAsking: false, accountId: 'acc' },
  }
  const receive = createReceiver({
    placeOf: () => place,
    keyOf: async () => ({ owner: AGENT, jwk }),
    replay: createReplayGuard({ now: Date.now }),
    now: Date.now,
  })
  const page = () => {
    const answer = feed.wholesale({ maxResults: 50 }, { caller: 'reader', visibility: 'full', grants: [] }, 0)
    if (answer.kind !== 'page') throw new Error(answer.kind)
    return answer.rows
  }
  const server = createServer((asked, response) => {
    const chunks: Buffer[] = []
    asked.on('data', (chunk: Buffer) => chunks.push(chunk))
    asked.on('end', async () => {
      if (asked.url === '/page') {
        for (const piece of page()) response.write(piece)
        return void response.end()
      }
      const body = Buffer.concat(chunks)
      const { reply } = await receive(place, { headers: asked.headersDistinct, body, from: '' })
      response.writeHead(reply.status, reply.headers ?? {}).end('{}')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const child = fork(new URL(import.meta.url), ['send'])

  /** CPU of this process for one request, in microseconds. */
  async function cost(path: string, headers: Record<string, string>, body: string): Promise<number> {
    const go = async (count: number) => {
      child.send({ port, path, headers: { ...headers, 'content-type': 'application/json' }, body, count })
      await once(child, 'message')
    }
    await go(WARM)
    const before = process.cpuUsage()
    await go(REQUESTS)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / REQUESTS
  }

  const sign = (text: string, by = key) =>
    createSigner(by, WEBHOOKS)(place.url, text, Date.now(), randomBytes(16).toString('base64url'))
  const event = JSON.stringify({
    ...{ idempotency_key: 'whk_1234567890123456', notification_type: 'signal.removed' },
    ...{ subscriber_id: 'tributary', account_id: 'acc_other', ext: { padding: 'x'.repeat(2_000) } },
  })
  const stranger = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const signature = crypto.sign(null, Buffer.from(event), key.privateKey)
  const startedAt = process.cpuUsage()
  const publicKey = crypto.createPublicKey(key.privateKey)
  for (let at = 0; at < 1_000; at += 1) crypto.verify(null, Buffer.from(event), publicKey, signature)
  const verifying = process.cpuUsage(startedAt).user / 1_000
  const ofPage = await cost('/page', {}, '{}')
  const unsigned = await cost('/told', {}, event)
  const limit = { is: (unsigned + verifying) / ofPage, of: 'the same unsigned, and one signature verified' }
  for (const [what, micros] of [
    ['not signed', unsigned],
    ['signed by a forger', await cost('/told', sign(event, stranger), event)],
    ['signed, and sent again', await cost('/told', sign(event), event)],
  ] as const) {
    report({
      what: `an event ${what}, against a page of 50 signals, CPU`,
      ...{ measured: micros / ofPage, unit: 'x', bar: { atMost: 1 }, limit },
    })
  }
  child.disconnect()
  server.close()
}

if (process.argv[2] === 'send') {
  process.on('message', async (job: Job) => {
    await send(job)
    process.send?.('sent')
  })
} else await bench()
