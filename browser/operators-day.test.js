import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'tap'
import { BUYER, callTool, KEYS, OPERATOR, read, startWorld } from './built.js'
import { enter, NO_BROWSER, openBrowser, openPage } from './chromium.js'

/** Plain HTTP under this name is no secure context, in which browsers give no clipboard. */
const HOST = 'tributary.test'

test('what an operator does in a browser', { skip: NO_BROWSER }, async (t) => {
  const world = await startWorld({
    signals: 96,
    config: (hosts) => ({
      listen: { port: 0, public_url: `http://${HOST}` },
      callers: { anonymous: 'metadata', keys: KEYS },
      egress: { hosts, webhook_networks: ['127.0.0.0/8'] },
    }),
  })
  t.teardown(() => world.close())
  const local = world.federation.url
  const url = `http://${HOST}`
  const browser = await openBrowser(`${HOST} ${new URL(local).host}`)
  t.teardown(() => browser.close())
  const { page, faults } = await openPage(browser, url)
  await page.goto(url)
  await enter(page, OPERATOR)

  await t.test('a question is copied where the browser gives no clipboard', async (t) => {
    t.equal(await page.evaluate('navigator.clipboard'), undefined)
    await page.getByRole('button', { name: 'as MCP' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    await page.focus('#q')
    await page.keyboard.press('Control+V')
    t.match(await page.inputValue('#q'), /"method":\s*"tools\/call"/)
    await page.fill('#q', '')
  })

  await t.test('an open job is tried again, and given up', async (t) => {
    let tries = 0
    const receiver = createServer((_request, response) => {
      tries += 1
      response.writeHead(503).end()
    })
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    const { port } = /** @type {import('node:net').AddressInfo} */ (receiver.address())
    t.teardown(() => receiver.close())
    world.sandbox.agents.meridian.briefTakes(6_000)
    /** @type {import('../test/support/federation.js').Answer} */
    const asked = await callTool(
      local,
      'get_signals',
      {
        ...{ adcp_version: '3.1', signal_spec: 'people who buy cars' },
        time_budget: { interval: 1, unit: 'seconds' },
        push_notification_config: {
          url: `http://127.0.0.1:${port}/hook`,
          operation_id: 'op_1',
          authentication: { schemes: ['Bearer'], credentials: 'a-secret-of-the-receiver-long-enough' },
        },
      },
      BUYER,
    )
    t.equal(asked.status, 'submitted')
    await page.goto(`${url}/?page=activity`)
    const row = page.getByRole('region', { name: 'Open jobs' }).locator('tr', { hasText: 'notice' })
    await row.waitFor()
    page.on('dialog', (dialog) => void dialog.accept())

    /**
     * Until the job is not being worked on at that moment: an operator acts on no other.
     * @type {(label: string, done: string) => Promise<void>}
     */
    async function press(label, done) {
      for (const end = Date.now() + 60_000; Date.now() < end; ) {
        await row.getByRole('button', { name: label }).click()
        const told = row
          .locator('.act', { has: page.getByRole('button', { name: label }) })
          .getByRole('status')
          .filter({ hasText: /./ })
        // Where the page is read anew before its answer comes, the job that was given up is there no more.
        const isGone = row.waitFor({ state: 'detached' }).then(() => done)
        const said = await Promise.race([told.textContent(), isGone])
        if (said?.includes(done)) return
        t.match(said, /being worked on/)
      }
      throw new Error(`${label} was never possible within a minute`)
    }
    const before = tries
    await press('Try now', 'Tried again')
    while (tries === before) await page.waitForTimeout(20)
    const { body } = await read(local, 'jobs', OPERATOR)
    const [job] = /** @type {{ id: string }[]} */ (body.jobs)
    await press('Give up', 'Given up')
    await row.waitFor({ state: 'detached' })
    await page.getByText('No job is open.').waitFor()
    await page.goto(`${url}/?page=audit`)
    await page.locator('tbody tr', { hasText: 'give up job' }).first().waitFor()
    const acts = await page.locator('tbody tr', { hasText: String(job?.id) }).allTextContents()
    t.match(
      acts.find((one) => /give up job/.test(one) && /done/.test(one)),
      /op/,
    )
    t.match(
      acts.find((one) => /retry job/.test(one) && /done/.test(one)),
      /op/,
    )
  })

  await t.test('processes that run another configuration are told apart', async () => {
    const said = (await read(local, 'overview', OPERATOR)).body
    const configuration = /** @type {{ revision: string }} */ (said.configuration)
    const replicas = { [String(configuration.revision)]: 2, 'another-revision': 1 }
    const planted = { ...said, configuration: { ...configuration, replicas } }
    await page.route('**/console/api/overview', (route) => route.fulfill({ json: planted }))
    await page.goto(`${url}/?page=server`)
    const processes = page.locator('.facts div', { hasText: 'Processes' })
    await processes.locator('.state.good', { hasText: '2 run' }).waitFor()
    await processes.locator('.state.bad', { hasText: '1 run another-revision' }).waitFor()
  })
  t.same(faults, [])
})
