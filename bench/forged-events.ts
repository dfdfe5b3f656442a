/**
 * What forged and replayed events cost whoever is listening, against a page of fifty signals that the same server gives a buyer
 * over MCP: CPU for each request, over HTTP. In a flood from one sender, and each from another, so that all are looked at.
 * `node dist/bench/forged-events.js`
 */
import { fork } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { createReceiver } from '../src/events/receiver.js'
import { createFeed } from '../src/feed/feed.js'
import { createServer } from '../src/server/app.js'
import { WEBHOOKS } from '../src/signing/profile.js'
import { createReplayGuard } from '../src/signing/replay.js'
import { createSigner, publicJwk } from '../src/signing/sign.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { benchSlice } from './feed-world.js'
import { report } from './report.js'
import { servingOptions, TOKENS } from './serving-options.js'

const REQUESTS = 1_000
const WARM = 500
const ROUNDS = 5 // the cheapest counts: other work on the machine only adds
const AGENT = 'https://far.example/mcp'
/** Stands for the address that a delivery comes from; `each`: another one for each. */
const [FROM, EACH] = ['x-from', 'each']
const BUYER = {
  ...{ authorization: `Bearer ${TOKENS.bench}`, accept: 'application/json, text/event-stream' },
  'mcp-protocol-version': '2025-06-18',
}
const PAGE = JSON.stringify({
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: {
    name: 'get_signals',
    arguments: { discovery_mode: 'wholesale', pagination: { max_results: 50 } },
  },
})
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
    const from = headers[FROM] === EACH ? { [FROM]: String(sent) } : {}
    const asked = request({ port, path, method: 'POST', headers: { ...headers, ...from } }).end(body)
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
  const app = createServer({
    ...servingOptions(feed, { perSecond: 1e9, burst: 1e9 }),
    feedEvents: async ({ headers, body }) => {
      const from = headers[FROM]?.toString() ?? ''
      return (await receive(place, { headers, body, from })).reply
    },
  })
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const child = fork(new URL(import.meta.url), ['send'])

  /** CPU of this process for one request, in microseconds. */
  async function cost(path: string, headers: Record<string, string>, body: string): Promise<number> {
    const go = async (count: number) => {
      child.send({
        ...{ port: Number(port), path, body, count },
        headers: { 'content-type': 'application/json', ...headers },
      })
      await once(child, 'message')
    }
    await go(WARM)
    let cheapest = Number.POSITIVE_INFINITY
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = process.cpuUsage()
      await go(REQUESTS)
      const { user, system } = process.cpuUsage(before)
      cheapest = Math.min(cheapest, (user + system) / REQUESTS)
    }
    return cheapest
  }

  const sign = (text: string, by = key) =>
    createSigner(by, WEBHOOKS)(place.url, text, Date.now(), randomBytes(16).toString('base64url'))
  const event = JSON.stringify({
    ...{ idempotency_key: 'whk_1234567890123456', notification_type: 'signal.removed' },
    ...{ subscriber_id: 'tributary', account_id: 'acc_other', ext: { padding: 'x'.repeat(2_000) } },
  })
  const stranger = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const page = await cost('/mcp', BUYER, PAGE)
  console.log(`a page of 50 signals over MCP: ${page.toFixed(0)} us of CPU`)
  const kinds = {
    'not signed': {},
    'signed by a forger': sign(event, stranger),
    'signed, and sent again': sign(event),
  }
  for (const [how, more] of [
    ['one sender', {}],
    ['a sender each', { [FROM]: EACH }],
  ] as const) {
    for (const [what, signed] of Object.entries(kinds)) {
      const measured = (await cost('/events/told', { ...signed, ...more }, event)) / page
      report({
        what: `an event ${what}, ${how}, against a page`,
        ...{ measured, unit: 'x', bar: { atMost: 1 } },
      })
    }
  }
  child.disconnect()
  await app.close()
}

if (process.argv[2] === 'send') {
  process.on('message', async (job: Job) => {
    await send(job)
    process.send?.('sent')
  })
} else await bench()
