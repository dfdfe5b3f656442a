import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { refreshUpstream } from '../../src/commands/operator.js'
import { runCommand } from '../support/command.js'
import { OPERATOR, startOver } from '../support/federation-over.js'
import { createOutput } from '../support/output.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, rows, until } from '../support/upstream-world.js'

const PATIENCE_MS = 60_000

/** A feed of five pages whose token never moves; `asked` holds the arguments of the questions for its rows. */
async function startFivePages(t: Test) {
  const feed = wholesaleAgent(rows(250), 'v1')
  const asked: Readonly<Record<string, unknown>>[] = []
  const agent = await startMcpAgent((task, args) => {
    if (task === 'get_signals') asked.push(args)
    return feed.handle(task, args)
  })
  t.teardown(() => agent.close())
  return { url: agent.url, asked, publish: () => feed.publish(rows(251), 'v1') }
}

const SELDOM = { defaults: { refresh: '1h', page_size: 50 } } // nobody polls it while the test looks

/** Fails at once where a question is conditional; ends when each page was asked for. */
async function readWhole(t: Test, asked: readonly Readonly<Record<string, unknown>>[]): Promise<void> {
  await until('six pages', () => asked.length >= 6 || isConditional(asked[0]), PATIENCE_MS)
  t.notOk(asked.some(isConditional), 'no question was bound to a token')
  const cursors = asked.map(({ pagination }) => (pagination as { cursor?: string }).cursor)
  t.same(cursors, [undefined, '50', '100', '150', '200', '250'], 'from the first page to the last')
}

const isConditional = (args: Readonly<Record<string, unknown>> | undefined) =>
  args?.if_wholesale_feed_version !== undefined

test('an operator has every page read, whatever the token says', async (t) => {
  const agent = await startFivePages(t)
  const over = await startOver(t, [{ id: 'five', url: agent.url }], SELDOM)
  agent.publish()
  agent.asked.length = 0
  t.equal((await over.post('/refresh?upstream=five')).status, 202)
  await readWhole(t, agent.asked)
  await until(
    'all rows',
    async () => (await over.federation.contributions())[0]?.published === 251,
    PATIENCE_MS,
  )
})

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
  const agent = await startFivePages(t)
  const upstreams = [{ id: 'one', url: agent.url }]
  const over = await startOver(t, upstreams, SELDOM)
  const file = join(await temporaryFolder(t), 'config.json')
  await writeFile(file, JSON.stringify({ upstreams }))
  const { url } = over.federation
  /** In this process. */
  const refresh = (upstream: string, token: string) =>
    refreshUpstream({ config: file, upstream, url, token, out: createOutput().out })
  agent.publish()
  agent.asked.length = 0
  const said = await runCommand(['refresh', 'one', '--config', file, '--url', url, '--token', OPERATOR])
  t.match(said, { code: 0, out: 'one is being read in full; tributary explain one shows how it went\n' })
  const failure = { name: 'CommandFailure', exitCode: 1 }
  await t.rejects(refresh('nobody', OPERATOR), { ...failure, message: /no upstream has this id/ })
  await t.rejects(refresh('one', 'a-buyer-key'), { ...failure, message: /key with role: operator/ })
  await readWhole(t, agent.asked)
  await until(
    'all rows',
    async () => (await over.federation.contributions())[0]?.published === 251,
    PATIENCE_MS,
  )
})
