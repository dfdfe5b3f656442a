import { test } from 'tap'
import { packSlab } from '../../src/upstreams/rows/slab.js'
import type { Slice } from '../../src/upstreams/rows/slice.js'
import { createGovernor } from '../../src/upstreams/walk/governor.js'

const limits = { rowsPerUpstream: 100, rowBytes: 1_000, pageBytes: 10_000, memoryBytes: 10_000 }

function slice(agentUrl: string, bytes: number): Slice {
  return {
    ...{ upstream: agentUrl, agentUrl, scope: 'public', mode: 'wholesale' },
    rows: packSlab([new Uint8Array(bytes)]),
    digests: new BigUint64Array(1),
    dropped: {},
    walkedAt: 0,
  }
}

function world() {
  const governor = createGovernor(() => limits)
  const evicted: string[] = []
  const share = (url: string) => governor.share(url, () => evicted.push(url))
  return { governor, evicted, share }
}

test('a walk that fills the memory ends, and those beside it go on', async (t) => {
  const { share, evicted, governor } = world()
  const greedy = share('https://greedy.example/mcp')
  const modest = share('https://modest.example/mcp')
  t.ok(modest.gathers(10, 1_000))
  t.ok(greedy.gathers(100, 6_000))
  t.notOk(greedy.gathers(100, 9_000))
  t.ok(modest.gathers(10, 2_000), 'who asks for little is not refused for another')
  t.notOk(greedy.gathers(100, 9_000), 'until its walk is over')
  t.ok(greedy.gathers(0, 0))
  t.ok(greedy.gathers(1, 100), 'the next walk may try')
  t.same(evicted, [])
  t.equal(governor.evictions(), 1)
})

test('what the greediest holds is dropped when it is not walking; a bystander loses nothing', async (t) => {
  const { share, evicted } = world()
  const kept = [
    slice('https://greedy.example/mcp', 7_000),
    slice('https://modest.example/mcp', 1_000),
  ] as const
  share(kept[0].agentUrl).holds(kept[0])
  share(kept[1].agentUrl).holds(kept[1])
  const newcomer = share('https://newcomer.example/mcp')
  t.ok(newcomer.gathers(10, 3_000))
  t.same(evicted, [kept[0].agentUrl])
  t.ok(newcomer.gathers(10, 4_000))
  t.equal(evicted.length, 1)
})

test('many agents under one domain are one', async (t) => {
  const { share, evicted } = world()
  const shares = Array.from({ length: 20 }, (_, at) => share(`https://a${at}.greedy.example/mcp`))
  const modest = share('https://modest.example/mcp')
  t.ok(modest.gathers(10, 2_000))
  for (const one of shares) one.gathers(10, 700)
  const went = shares.map((one) => one.gathers(10, 700))
  t.ok(went.includes(false))
  t.ok(modest.gathers(10, 2_500))
  t.same(evicted, [])
})
