/** Agents that are in no roster any more, which are called all the same: what was activated there can be switched off. */
import { test } from 'tap'
import { until } from '../support/until.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams } from '../support/upstream-world.js'

const MANY = 65 // more than are kept

/** Many agents at one origin; that at `slow` says what it is only once it is told to. */
async function startMany(slow: string) {
  const acts: string[] = []
  const waiting: (() => void)[] = []
  let abandoned = 0 // requests that were hung up on before they were answered
  const running = await startHttp(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const path = request.url ?? ''
    const { id, method, params } = (await readJson(request)) as {
      id?: number
      method: string
      params?: { name?: string }
    }
    if (id === undefined) return void response.writeHead(202).end()
    const task = method === 'tools/call' ? params?.name : undefined
    if (task === 'get_adcp_capabilities' && path === slow) {
      response.once('close', () => {
        if (!response.writableEnded) abandoned += 1
      })
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
    if (task === 'activate_signal') acts.push(path)
    const serverInfo = { name: 'left', version: '1' }
    const result =
      method === 'initialize'
        ? { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo }
        : task === 'get_adcp_capabilities'
          ? { content: [], structuredContent: CAPABILITIES }
          : task
            ? { content: [], structuredContent: { status: 'completed' } }
            : { tools: [{ name: 'activate_signal', inputSchema: { type: 'object' } }] }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  return { ...running, acts, waiting, abandoned: () => abandoned }
}

for (const [what, meanwhile] of [
  ['so many others are called that it is let go of', 'others'],
  ['the configuration is read again', 'reload'],
] as const) {
  test(`a call of an agent that left goes on while ${what}`, async (t) => {
    const agents = await startMany('/0')
    t.teardown(() => agents.close())
    const config = configOf([])
    const { upstreams } = await openUpstreams(t, config)
    await upstreams.start()
    const call = (at: number) =>
      upstreams.call(`${agents.origin}/${at}`, 'activate_signal', {}, { deadline: Date.now() + 60_000 })
    const first = call(0)
    await until(
      () => agents.waiting.length,
      (count) => count > 0,
    )
    if (meanwhile === 'reload') upstreams.reconfigure(config)
    else for (let at = 1; at <= MANY; at += 1) t.match(await call(at), { kind: 'answer' })
    for (const answer of agents.waiting) answer()
    t.match(await first, { kind: 'answer' })
    t.equal(agents.acts.filter((path) => path === '/0').length, 1)
  })
}

test('what is read for a call that is over ends with the agent that is let go of', async (t) => {
  const agents = await startMany('/0')
  t.teardown(() => agents.close())
  const config = configOf([], { timeoutMs: 60_000 })
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  const call = upstreams.call(`${agents.origin}/0`, 'activate_signal', {}, { deadline: Date.now() + 500 })
  await until(
    () => agents.waiting.length,
    (count) => count > 0,
  )
  t.match(await call, { kind: 'failed' })
  t.equal(agents.abandoned(), 0, 'it may still answer whoever calls next')
  upstreams.reconfigure(config)
  t.equal(await until(agents.abandoned, (count) => count > 0), 1, 'it is read no more')
})
