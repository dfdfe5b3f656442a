/**
 * What forged and replayed events cost whoever is listening, against a page of fifty signals that the same server gives a buyer
 * over MCP: CPU for each request, over HTTP. In a flood from one sender, and each from another, so that all are looked at. The
 * least is what a bare route costs that takes the same message and refuses it unread. `node dist/bench/forged-events.js`
 */
import { fork } from 'node:child_process'
import { generateKeyPairSync, randomBytes, sign, verify } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import Fastify from 'fastify'
import { createReceiver } from '../src/events/receiver.js'
import { createFeed } from '../src/feed/feed.js'
import { createApp } from '../src/server/app.js'
import { publicJwk } from '../src/signing/key.js'
import { createSigner, WEBHOOKS } from '../src/signing/signature.js'
import { createReplayGuard } from '../src/signing/verify.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { benchSlice } from './feed-world.js'
import { ours } from './ours.js'
import { report } from './report.js'
import { servingOptions, TOKENS } from './serving-options.js'

const REQUESTS = 1_000
const WARM = 500
const ROUNDS = 5 // the cheapest counts: other work on the machine only adds
const AGENT = 'https://far.example/mcp'
/** Stand for the address that a delivery comes from, and for the place that it goes to; `each`: another one for each. */
const [FROM, PLACE, EACH] = ['x-from', 'x-place', 'each']
const BUYER = {
  ...{ authorization: `Bearer ${TOKENS.bench}`, accept: 'application/json, text/event-stream' },
  'mcp-protocol-version': '2025-06-18',
}
/** Stands for another number in each request. */
const NUMBER = '"NUMBER"'
const pageOf = (more: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: {
      name: 'get_signals',
      arguments: { discovery_mode: 'wholesale', pagination: { max_results: 50 }, ...more },
    },
  })
const judge = () => ({
  stamp: 'all',
  policy: 'observe' as const,
  decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
  definition: () => undefined,
})

type Job = { port: number; path: string; headers: Record<string, string>; body: string; count: number }

let number = 1_000

/** Sends one request so many times, one after the other. */
async function send({ port, path, headers, body, count }: Job): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    number += 1
    const own = Object.entries(headers).map(([name, value]) => [
      name,
      value === EACH ? String(number) : value,
    ])
    const asked = request({ port, path, method: 'POST', headers: Object.fromEntries(own) })
    asked.end(body.replace(NUMBER, String(number)))
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
  const app = createApp({
    ...servingOptions(feed, { perSecond: 1e9, burst: 1e9 }),
    feedEvents: async ({ headers, body }) => {
      const from = headers[FROM]?.toString() ?? ''
      const url = headers[PLACE] === undefined ? place.url : `${place.url}/${headers[PLACE]}`
      return (await receive({ ...place, url }, { headers, body, from })).reply
    },
  })
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const bare = Fastify()
  bare.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  bare.post('/events/:token', (_, reply) => reply.code(429).send())
  const { port: barePort } = new URL(await bare.listen({ host: '127.0.0.1', port: 0 }))
  const child = ours(fork(new URL(import.meta.url), ['send']))

  /** CPU of this process for one request, in microseconds. */
  async function cost(
    path: string,
    headers: Record<string, string>,
    body: string,
    at = port,
  ): Promise<number> {
    const go = async (count: number) => {
      child.send({
        ...{ port: Number(at), path, body, count },
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

  const signed = (text: string, by = key) =>
    createSigner(by, WEBHOOKS)(place.url, text, Date.now(), randomBytes(16).toString('base64url'))
  const event = JSON.stringify({
    ...{ idempotency_key: 'whk_1234567890123456', notification_type: 'signal.removed' },
    ...{ subscriber_id: 'tributary', account_id: 'acc_other', ext: { padding: 'x'.repeat(2_000) } },
  })
  const stranger = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const page = await cost('/mcp', BUYER, pageOf({}))
  const newPage = await cost('/mcp', BUYER, pageOf({ filters: { max_cpm: 'NUMBER' } }))
  console.log(
    `a page of 50 signals over MCP: ${page.toFixed(0)} us of CPU, ${newPage.toFixed(0)} for the first time`,
  )
  const kinds = {
    'not signed': {},
    'signed by a forger': signed(event, stranger),
    'signed, and sent again': signed(event),
  }
  for (const [how, more] of [
    ['one sender', {}],
    ['a sender each', { [FROM]: EACH }],
  ] as const) {
    for (const [what, signature] of Object.entries(kinds)) {
      const headers = { ...signature, ...more }
      const least = (await cost('/events/told', headers, event, barePort)) / page
      report({
        what: `an event ${what}, ${how}, against a page`,
        ...{ measured: (await cost('/events/told', headers, event)) / page, unit: 'x', bar: { atMost: 1 } },
        limit: { is: least, of: 'a bare route that takes the same message and refuses it unread' },
      })
    }
  }
  // Few come to be looked at, because of the limits of a place: here each has a place, and room, of its own.
  const looked = await cost(
    '/events/told',
    { ...kinds['signed by a forger'], [FROM]: EACH, [PLACE]: EACH },
    event,
  )
  for (const [ruler, of] of [
    ['a page', page],
    ['a page asked for the first time', newPage],
  ] as const) {
    report({
      what: `one forged event that is looked at, against ${ruler}`,
      ...{ measured: looked / of, unit: 'x', bar: { atMost: 1 } },
      limit: { is: verifying() / of, of: 'verifying its signature, and nothing else' },
    })
  }
  child.disconnect()
  await app.close()
  await bare.close()
}

/** Microseconds of CPU that the verification of one signature takes. */
function verifying(): number {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const base = randomBytes(400)
  const signature = sign(null, base, privateKey)
  const before = process.cpuUsage()
  for (let done = 0; done < REQUESTS; done += 1) verify(null, base, publicKey, signature)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / REQUESTS
}

if (process.argv[2] === 'send') {
  process.on('message', async (job: Job) => {
    await send(job)
    process.send?.('sent')
  })
} else await bench()
