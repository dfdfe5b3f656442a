/** A registry that lists as many agents as it may, each at a long url, and changes all of them at each answer. */
import { test } from 'tap'
import { readListing } from '../../src/upstreams/rows/registry-records.js'
import { watchStops } from '../support/thread-time.js'
import { startHttp } from '../support/upstream-agent.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

const STOP_MS = 50
const RECORDS = 10_000
const ANSWERS = 6

/** Two listings that differ in every record. */
const bodiesOf = (path: string) =>
  ['a', 'b'].map((name) => {
    const record = (at: number) => ({ name, url: `https://e.example/${at}/${path}`, type: 'signals' })
    return Buffer.from(JSON.stringify({ agents: Array.from({ length: RECORDS }, (_, at) => record(at)) }))
  })

for (const length of [20, 1_900]) {
  test(`a registry of ten thousand urls of ${length} characters stops nobody when it changes`, async (t) => {
    const bodies = bodiesOf('p'.repeat(length))
    let answers = 0
    const server = await startHttp((_, response) => {
      answers += 1
      response.writeHead(200, { 'content-type': 'application/json' }).end(bodies[answers % 2])
    }, '')
    t.teardown(server.close)
    const config = {
      ...configOf([]),
      registries: [{ url: server.origin, refreshMs: 100 }],
      policy: { include: { members: ['nobody'] } },
    }
    const { upstreams } = await openUpstreams(t, config)
    await upstreams.start()
    await until('the first listing', () => upstreams.roster().excluded.length > 0)
    const watch = watchStops()
    t.teardown(watch.end)
    const stops: number[] = []
    for (let seen = answers; answers < seen + ANSWERS; ) {
      const before = answers
      await until('another answer', () => answers > before)
      stops.push(watch.longest())
    }
    const [, , , middle = 0] = stops.map(Math.round).sort((one, other) => one - other) // each answer would stop it
    t.ok(middle < STOP_MS, `${stops.map(Math.round)} ms`)
  })
}

test('records are read as far as there is room for all of them, and the rest is counted', async (t) => {
  const [body = Buffer.alloc(0)] = bodiesOf('p'.repeat(1_900))
  const listing = readListing(body)
  const { agents = 0, written, diagnostics } = listing ?? {}
  t.ok(agents > 1_000 && agents < RECORDS / 2, `${agents}`)
  t.same(JSON.parse(Buffer.from(written ?? []).toString()), listing?.records)
  t.match(diagnostics, [new RegExp(`^${RECORDS - agents} records were left out`)])
  t.equal(readListing(body)?.digest, listing?.digest)
})
