import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { runCommand } from '../support/command.js'
import { OPERATOR, startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, tempFolder, until } from '../support/upstream-world.js'

const PATIENCE_MS = 30_000

test('what changed under an unchanged token is read when an operator says so', async (t) => {
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'liar', url: agent.url }])
  t.equal((await over.wholesale()).signals.length, 1)
  feed.publish([row(1), row(2)], 'v1')
  t.equal((await over.post('/refresh?upstream=liar', 'a-buyer-key')).status, 403)
  t.equal((await over.post('/refresh?upstream=nobody')).status, 404)
  const answer = await over.post('/refresh?upstream=liar')
  t.equal(answer.status, 202)
  t.same(await answer.json(), { upstream: 'liar', reading: 'full' })
  await until(
    'both rows',
    async () => (await over.federation.contributions())[0]?.published === 2,
    PATIENCE_MS,
  )
  t.equal((await over.wholesale()).signals.length, 2)

  // Who lies is named.
  const { upstreams } = await over.explain('liar')
  t.match(upstreams, [{ notes: [/changed under an unchanged .* read in full at each refresh/] }])
  const metrics = await (await over.get('/metrics')).text()
  t.match(metrics, 'tributary_upstream_token_distrusted{upstream="liar"} 1')
  t.match(await (await over.get('/console/api/upstreams')).text(), /changed under an unchanged/)
})

test('the command has a running server read an upstream in full', async (t) => {
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'one', url: agent.url }])
  const file = join(await tempFolder(t), 'config.json')
  await writeFile(file, JSON.stringify({ upstreams: [{ id: 'one', url: agent.url }] }))
  const refresh = (upstream: string, token: string) =>
    runCommand(['refresh', upstream, '--config', file, '--url', over.federation.url, '--token', token])
  feed.publish([row(1), row(2)], 'v1')
  const [said, unknown, refused] = await Promise.all([
    refresh('one', OPERATOR),
    refresh('nobody', OPERATOR),
    refresh('one', 'a-buyer-key'),
  ])
  t.match(said, { code: 0, out: 'one is being read in full; tributary explain one shows how it went\n' })
  t.match(unknown, { code: 1, err: /no upstream has this id/ })
  t.match(refused, { code: 1, err: /key with role: operator/ })
  await until(
    'both rows',
    async () => (await over.federation.contributions())[0]?.published === 2,
    PATIENCE_MS,
  )
  t.equal((await over.wholesale()).signals.length, 2)
})
