import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createSliceStore } from '../../src/upstreams/mirror/slice-store.js'
import { packSlab, slabRow } from '../../src/upstreams/rows/slab.js'
import { row } from '../support/upstream-world.js'

const agentUrl = 'https://a.example/mcp'
const owner = { credential: 'none' }

function keptBlobs() {
  const kept = new Map<string, Uint8Array[]>()
  const blobs = {
    read: async (name: string) => kept.get(name),
    write: async (name: string, parts: readonly Uint8Array[]) => void kept.set(name, [...parts]),
    remove: async (name: string) => void kept.delete(name),
    list: async (prefix: string) => [...kept.keys()].filter((name) => name.startsWith(prefix)),
  }
  return { kept, blobs }
}

test('rows that an earlier release kept as they came are read again by the rules of today', async (t) => {
  const { kept, blobs } = keptBlobs()
  const store = createSliceStore({ blobs, clock: systemClock, onTrouble: (message) => t.fail(message) })
  const good = JSON.stringify(row(1))
  const twice = JSON.stringify(row(2)).replace('{', '{"signal_ref":{"scope":"data_provider"},')
  const rows = packSlab([good, twice].map((text) => Buffer.from(text)))
  const digests = new BigUint64Array(new SharedArrayBuffer(16))
  const about = {
    upstream: 'a',
    agentUrl,
    scope: 'public',
    mode: 'wholesale',
    dropped: {},
    walkedAt: 1,
  } as const
  const slice = { ...about, feedVersion: 'f', rows, digests }
  store.save({ slice, domains: ['other.example'], confirmedAt: 1 }, owner, {
    name: '',
    epoch: 0,
  })
  await store.close()
  const [name = '', [head, ...parts] = []] = [...kept].find(([each]) => each.startsWith('slice/')) ?? []
  const { reading: _, ...written } = JSON.parse(Buffer.from(head ?? []).toString())
  const header = { ...written, format: 1 }
  kept.set(name, [Buffer.from(JSON.stringify(header)), ...parts])
  const held = await store.load({ agentUrl, scope: 'public' }, owner)
  t.equal(held?.slice.rows.count, 1)
  t.equal(held && Buffer.from(slabRow(held.slice.rows, 0)).toString(), good)
  t.same(held?.domains, ['tridentauto.example'])
  t.equal(held?.slice.feedVersion, undefined, 'they may lack members: they are asked for without a token')
})

test('rows that lack members are shown, and asked for again without a token', async (t) => {
  const { kept, blobs } = keptBlobs()
  const store = createSliceStore({ blobs, clock: systemClock, onTrouble: (message) => t.fail(message) })
  const rows = packSlab([Buffer.from(JSON.stringify(row(1)))])
  const digests = new BigUint64Array(new SharedArrayBuffer(8))
  const tokens = { feedVersion: 'f', pricingVersion: 'p' }
  const about = { upstream: 'a', agentUrl, scope: 'public', mode: 'wholesale', dropped: {} } as const
  const slice = { ...about, ...tokens, rows, digests, walkedAt: 1 }
  store.save({ slice, domains: [], confirmedAt: 1 }, owner, { name: '', epoch: 0 })
  await store.close()
  const key = { agentUrl, scope: 'public' }
  t.match((await store.load(key, owner))?.slice, tokens)
  const [name = '', [head, ...parts] = []] = [...kept].find(([each]) => each.startsWith('slice/')) ?? []
  const { reading, ...header } = JSON.parse(Buffer.from(head ?? []).toString())
  t.equal(header.format, 2, 'the release before finds it, too')
  kept.set(name, [Buffer.from(JSON.stringify({ ...header, reading: reading + 1 })), ...parts])
  t.match((await store.load(key, owner))?.slice, tokens, 'what a later release read lacks nothing')
  for (const before of [{}, { reading: reading - 1 }]) {
    kept.set(name, [Buffer.from(JSON.stringify({ ...header, ...before })), ...parts])
    const held = await store.load(key, owner)
    t.equal(held?.slice.rows.count, 1)
    t.match(held?.slice, { feedVersion: undefined, pricingVersion: undefined })
  }
})

test("what the first release kept under a url with a key in it is no other agent's, and goes", async (t) => {
  const { kept, blobs } = keptBlobs()
  const open = () => createSliceStore({ blobs, clock: systemClock, onTrouble: (message) => t.fail(message) })
  const rows = packSlab([Buffer.from(JSON.stringify(row(1)))])
  const about = { upstream: 'a', scope: 'public', mode: 'wholesale', dropped: {}, walkedAt: 1 } as const
  const old = `${agentUrl}?api_key=a-secret-of-the-url`
  const first = open()
  const digests = new BigUint64Array(new SharedArrayBuffer(8))
  first.save({ slice: { ...about, agentUrl: old, rows, digests }, domains: [], confirmedAt: 1 }, owner, {
    name: '',
    epoch: 0,
  })
  await first.close()
  const store = open()
  const key = { agentUrl, scope: 'public' }
  t.equal(await store.load(key, owner), undefined)
  await store.sweep(({ agentUrl: url }) => url === agentUrl, { name: 'sweeping', epoch: 0 })
  await store.close()
  t.same([...kept.keys()], [])
})
