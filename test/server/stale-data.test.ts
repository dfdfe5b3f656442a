import { test } from 'tap'
import { staleWarnings } from '../../src/briefs/brief.js'
import type { Health } from '../../src/feed/incomplete.js'
import type { UpstreamStatus } from '../../src/upstreams/mirror/scope-status.js'
import { healthOf } from '../support/health.js'
import { startServer } from '../support/server-fixture.js'

const upstream = (id: string, state: UpstreamStatus['state'], listings = 5): UpstreamStatus => ({
  ...{ id, url: `https://${id}.example`, agentUrl: `https://${id}.example`, name: id, state, listings },
  dropped: {},
})
const wholesale = { discovery_mode: 'wholesale' }

test('one STALE_DATA warning names the stale upstreams whose rows are in the feed', async (t) => {
  let statuses = [upstream('old', 'stale'), upstream('gone', 'absent', 0), upstream('new', 'fresh')]
  const { call } = await startServer(t, { upstreams: healthOf(() => statuses) })
  const page = await call('get_signals', wholesale)
  t.match(page, {
    status: 'completed',
    errors: [{ code: 'STALE_DATA', severity: 'warning', message: /\bold\b/ }],
  })
  t.equal(page.errors.length, 1)
  t.notMatch(page.errors[0].message, /gone|new/)

  const token = { if_wholesale_feed_version: page.wholesale_feed_version }
  t.equal((await call('get_signals', { ...wholesale, ...token })).errors, undefined, 'unchanged: none')

  statuses = [upstream('empty', 'stale', 0), upstream('new', 'fresh')]
  t.equal((await call('get_signals', wholesale)).errors, undefined)
})

test('answers that lacked nothing say what is lacking as soon as a state is another', async (t) => {
  let statuses = [upstream('one', 'fresh'), upstream('other', 'fresh')]
  let silent: ReturnType<Health['silentRegistries']> = []
  const health = { ...healthOf(() => statuses), silentRegistries: () => silent }
  const { call } = await startServer(t, { upstreams: health })
  const lacking = async () => {
    const { incomplete = [], errors = [] } = await call('get_signals', wholesale)
    return [incomplete.length, errors.length]
  }
  t.same(await lacking(), [0, 0])
  t.same(await lacking(), [0, 0])

  statuses = [upstream('one', 'fresh'), upstream('other', 'stale')]
  t.same(await lacking(), [1, 1])
  statuses = [upstream('one', 'fresh'), upstream('other', 'fresh')]
  t.same(await lacking(), [0, 0])
  statuses = statuses.slice(1).concat(upstream('next', 'starting', 0))
  t.same(await lacking(), [1, 0])
  statuses = statuses.slice(0, 1)
  t.same(await lacking(), [0, 0])

  silent = [{ url: 'https://registry.example', upstreams: [] }]
  t.same(await lacking(), [1, 0])
  silent = []
  t.same(await lacking(), [0, 0])
})

test('a warning does not grow with the number of upstreams', async (t) => {
  const [warning] = staleWarnings(Array.from({ length: 500 }, (_, n) => upstream(`u${n}`, 'stale')))
  t.match(warning?.message, /and 480 more/)
})
