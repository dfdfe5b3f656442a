import { test } from 'tap'
import {
  captureFolders,
  countRows,
  hasCaptures,
  invocation,
  readCaptures,
  startReplay,
} from '../support/upstream-captures.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

/** What stands in the captures decides what must be found; the folder's name decides nothing. */
function expectation(folder: string): { rows: number } | { problem: RegExp } {
  const captures = readCaptures(folder)
  const open = captures.filter(({ request }) => !invocation(request)?.args.account)
  const most = (those: typeof captures) => Math.max(0, ...those.map(({ response }) => countRows(response)))
  const rows = most(open) || most(captures) // some agents answer nobody without an account
  return rows > 0 ? { rows } : { problem: /server_error|agent_error|not_enumerable/ }
}

if (!hasCaptures) test('captures of real agents', { skip: '../shared/adcp/captures is absent' }, () => {})
else {
  for (const folder of captureFolders()) {
    test(`a replay of ${folder} is federated, or says why not`, async (t) => {
      const agent = await startReplay(folder)
      t.teardown(agent.close)
      // One question for agents that only answer questions; the wholesale ones ignore it.
      const config = configOf([{ id: 'a', url: agent.url, seeds: ['luxury'] }])
      const { upstreams } = await openUpstreams(t, config)
      await upstreams.start()
      const status = () => upstreams.statuses()[0]
      await until('an outcome', () => status()?.state === 'fresh' || status()?.problem !== undefined)
      t.comment(JSON.stringify({ ...status(), url: undefined }))
      const expected = expectation(folder)
      const { listings = 0, dropped = {}, problem } = status() ?? {}
      if ('problem' in expected) return t.match(problem?.reason, expected.problem)
      t.equal(problem, undefined)
      const lost = Object.values(dropped).reduce((sum, count) => sum + count, 0)
      t.equal(listings + lost, expected.rows)
      t.ok(listings > 0)
    })
  }

  for (const folder of captureFolders()) {
    const paged = readCaptures(folder).filter(({ request }) => {
      const { pagination } = (invocation(request)?.args ?? {}) as { pagination?: { cursor?: string } }
      return pagination?.cursor !== undefined && pagination.cursor !== 'not-a-cursor'
    })
    if (paged.length === 0) continue
    test(`captured pages of ${folder} are walked by their cursors`, async (t) => {
      const agent = await startReplay(folder)
      t.teardown(agent.close)
      const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], { pageSize: 3 }))
      await upstreams.start()
      await until('a slice', () => upstreams.slices().length === 1)
      t.equal(upstreams.slices()[0]?.rows.count, 6)
    })
  }
}
