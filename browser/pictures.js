/**
 * Makes the pictures of docs/console.md from the demo world: `npm run pictures`. An agent is left out for a moment, and
 * another stops, so that there is something to be seen over time.
 */

import { fileURLToPath } from 'node:url'
import { actingOn, KEYS, OPERATOR, read, startWorld } from './built.js'
import { enter, openBrowser, openPage } from './chromium.js'

const FOLDER = fileURLToPath(new URL('../docs/', import.meta.url))
const NORTHWIND = 'signals.northwind.example'
const SIZE = { width: 1_280, height: 800 }

const world = await startWorld({
  signals: 1_200,
  config: () => ({
    callers: { anonymous: 'metadata', keys: KEYS },
    defaults: { refresh: '2s', timeout: '60s' },
  }),
})
const { url } = world.federation
const act = actingOn(url)

const browser = await openBrowser()
const { page } = await openPage(browser, url, { viewport: SIZE })
await page.goto(url)
await enter(page, OPERATOR)

/** @type {(name: string, path: string, ready: string, colorScheme: 'light' | 'dark') => Promise<void>} */
async function picture(name, path, ready, colorScheme) {
  await page.emulateMedia({ colorScheme })
  await page.goto(`${url}${path}`)
  await page.waitForSelector(ready)
  await page.screenshot({ path: `${FOLDER}console-${name}.png` })
}

await picture('feed', '/?q=buyers&country=DE', 'td.signal a', 'light')
const { body } = await read(url, `signals?upstream=${NORTHWIND}`, OPERATOR)
const rows = /** @type {import('../test/support/federation.js').Signal[]} */ (body.signals)
const shared = rows.find(({ ext }) => ext.tributary.offers.length > 1) ?? rows[0]
await act('exclude-upstream', NORTHWIND)
await page.goto(`${url}/?upstream=${NORTHWIND}`)
await page.waitForSelector('.empty')
await act('admit-upstream', `https://${NORTHWIND}/mcp`)
await page.waitForSelector('td.signal a')
await page.setViewportSize({ ...SIZE, height: 1_960 })
await picture('signal', `/?signal=${shared?.signal_agent_segment_id}`, '.plot canvas', 'dark')
await page.setViewportSize(SIZE)
await world.sandbox.stop('signals.oldmill.example')
await page.goto(`${url}/?page=upstreams`)
await page
  .locator('tr', { hasText: 'signals.oldmill.example' })
  .locator('.state', { hasText: 'stale' })
  .waitFor()
await picture('upstreams', '/?page=upstreams', 'td.signal a', 'light')

await browser.close()
await world.close()
