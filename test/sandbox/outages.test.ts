import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { located, open, page } from './support/world.js'

test('nobody answers for the dead agent', async (t) => {
  const sandbox = await open(t)
  await t.rejects(fetch(located(sandbox, 'https://signals.fogbank.example/mcp')), {
    cause: { code: 'ECONNREFUSED' },
  })
})

test('a stopped domain cuts every connection and comes back at the same place', async (t) => {
  const sandbox = await open(t)
  const { hostname } = new URL(sandbox.agents.northwind.url)
  const before = sandbox.hosts[hostname]
  sandbox.stop(hostname)
  await t.rejects(page(sandbox, 'northwind'))
  sandbox.restart(hostname)
  t.ok((await page(sandbox, 'northwind')).signals)
  t.equal(sandbox.hosts[hostname], before)
})

test('a delayed domain answers late; closing does not wait for it', async (t) => {
  const sandbox = await startSandbox({ signals: 24 })
  const url = located(sandbox, 'https://motorledger.example/.well-known/adagents.json')
  sandbox.delay('motorledger.example', 40)
  const started = performance.now()
  t.equal((await fetch(url)).status, 200)
  t.ok(performance.now() - started >= 39)
  sandbox.delay('motorledger.example', 3_600_000)
  const hung = t.rejects(fetch(url))
  while (sandbox.requests('motorledger.example') < 2) await new Promise((resolve) => setImmediate(resolve))
  await sandbox.close()
  await hung
})

test('an MCP agent answers 405 to GET and 404 beside its path', async (t) => {
  const sandbox = await open(t)
  const url = located(sandbox, sandbox.agents.northwind.url)
  t.equal((await fetch(url)).status, 405)
  t.equal((await fetch(new URL('/other', url), { method: 'POST' })).status, 404)
})

test('a market that cannot be is refused with what was expected', async (t) => {
  for (const signals of [0, 23, 2.5, Number.NaN]) {
    await t.rejects(startSandbox({ signals }), { name: 'RangeError', message: /whole number from 24/ })
  }
  await t.rejects(startSandbox({ signals: 24, seed: -1 }), {
    message: /^seed: expected a whole number from 0/,
  })
})
