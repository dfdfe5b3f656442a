import { generateKeyPairSync } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { type Test, test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import { publicJwk } from '../../src/signing/key.js'
import { createSigner, REQUESTS } from '../../src/signing/signature.js'
import type { Task } from '../../src/tasks/task.js'
import type { Auth } from '../../src/upstreams/agent/agent.js'
import { createPassingBlobs } from '../../src/upstreams/rows/storage.js'
import { createContact } from '../../src/upstreams/walk/contact.js'
import { READ_LIMITS } from '../../src/upstreams/walk/governor.js'
import { createLearntStore } from '../../src/upstreams/walk/learnt.js'
import { BUYER_TOKEN, OTHER_TOKEN, sha256, startServer } from '../support/server-fixture.js'

const HOST = 'tributary.example'
const key = { keyId: 'ours', privateKey: generateKeyPairSync('ed25519').privateKey }

const activate: Task = {
  ...{ name: 'activate_signal', title: 'Activate', description: 'Activates.', mutating: true },
  request: Type.Object({}),
  handle: (_input, { caller }) => ({ kind: 'answer', message: 'Done.', fields: { by: caller.id } }),
}

/** An agent that demands signatures, and the line to it with and without a key. */
async function start(t: Test, transport: 'mcp' | 'a2a', sign: boolean, auth: Auth) {
  const { url } = await startServer(t, {
    ...{ publicUrl: `http://${HOST}`, tasks: [activate], send: async () => never() },
    facts: () => ({
      ...{ providerDomains: [], servesOwned: false, accountOverlays: false },
      signing: { brandJsonUrl: 'https://operator.example/brand.json', requests: { required: true } },
    }),
    callers: {
      anonymous: 'metadata',
      keys: [
        {
          ...{ id: 'us', tokenSha256: sha256(BUYER_TOKEN), role: 'buyer' },
          signing: { source: { keys: [publicJwk(key)] }, required: true, revoked: [] },
        },
        { id: 'them', tokenSha256: sha256(OTHER_TOKEN), role: 'buyer' },
      ],
    },
  })
  const policy = { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: { [HOST]: url } }
  const egress = createEgress({ policy })
  const agentUrl = `http://${HOST}/${transport}`
  const contact = createContact({
    entry: {
      ...{ id: 'agent', url: agentUrl, agentUrl, name: 'agent', protocol: transport, auth, seeds: [] },
    } as unknown as Parameters<typeof createContact>[0]['entry'],
    send: egress.send,
    ...(sign && { sign: createSigner(key, REQUESTS) }),
    slots: (budget, run) => run(budget),
    limits: () => READ_LIMITS,
    ...{ timeoutMs: () => 60_000, clock: systemClock, random: Math.random },
    learnt: createLearntStore({ blobs: createPassingBlobs(), onTrouble: () => {} }),
    ...{ onDialect: () => {}, onBroken: () => {}, isReader: () => true, nextReadingAt: () => undefined },
  })
  t.teardown(async () => {
    contact.close()
    await egress.close()
  })
  return (own?: Auth) =>
    contact.call('activate_signal', {}, { deadline: Date.now() + 60_000, ...(own && { auth: own }) })
}

function never(): never {
  throw new Error('nothing is fetched')
}

const bearer = (token: string): Auth => ({ type: 'bearer', token })

for (const transport of ['mcp', 'a2a'] as const) {
  test(`requests over ${transport} are signed for agents that ask for it, and with our own credential only`, async (t) => {
    const signed = await start(t, transport, true, bearer(BUYER_TOKEN))
    t.match(await signed(), { kind: 'answer', payload: { by: 'us' } })
    t.match(await signed(bearer(OTHER_TOKEN)), { kind: 'answer', payload: { by: 'them' } })
    const alone = await start(t, transport, true, { type: 'none' })
    t.match(await alone(), { kind: 'answer', payload: { by: 'us' } }, 'a signature is a credential')
    const unsigned = await start(t, transport, false, bearer(BUYER_TOKEN))
    t.match(await unsigned(), { kind: 'failed', reason: 'unauthorized' })
  })
}
