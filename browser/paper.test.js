import { test } from 'tap'
import { OPERATOR, read } from './built.js'
import { enter, NO_BROWSER, openPage } from './chromium.js'
import { startStillWorld } from './still-world.js'

const NORTHWIND = 'signals.northwind.example'
const A4 = { width: 718, height: 1_040 } // less a margin of a centimetre
const CONTROLS = 'nav, .search-line, button:not(.head), select, input, .act'

/** What is beyond the right edge of the paper. */
const CUT_OFF = `[...document.querySelectorAll('main *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.matches('.hidden, .hidden *'))
  .map((one) => one.outerHTML.slice(0, 120))`

/** How dark the letters are, and the ground under them: the sums of red, green and blue. */
const INK = `[...document.querySelectorAll('main td, main dt, main .total')].map((one) => {
  const of = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)
  return of(getComputedStyle(one).color)
}).concat(getComputedStyle(document.documentElement).backgroundColor === 'rgb(255, 255, 255)' ? [] : [999])
  .filter((sum) => sum > 380)`

test('the page on paper, and the place that is come back to', { skip: NO_BROWSER }, async (t) => {
  const { browser, url, act } = await startStillWorld(t)
  const { body } = await read(url, 'signals?provider=motorledger.example&sort=sellers&limit=1', OPERATOR)
  const [{ signal_agent_segment_id: handle } = { signal_agent_segment_id: '' }] =
    /** @type {import('../test/support/federation.js').Signal[]} */ (body.signals)
  const signal = `/?signal=${handle}`
  await act('exclude-upstream', NORTHWIND)
  const { page, faults } = await openPage(browser, url, { colorScheme: 'dark' })
  await page.goto(url)
  await enter(page, OPERATOR)
  await act('admit-upstream', `https://${NORTHWIND}/mcp`)
  await page.goto(`${url}/?upstream=${NORTHWIND}`)
  await page.waitForSelector('td.signal a')

  await t.test('a print in the dark is dark on white, whole, and without controls', async (t) => {
    const pages = ['/?country=DE&q=buyers', signal, '/?page=upstreams', '/?page=providers', '/?page=server']
    await page.setViewportSize(A4)
    for (const path of pages) {
      await page.emulateMedia({ media: 'screen' })
      await page.goto(`${url}${path}`)
      await page.waitForSelector('main table tbody tr')
      await page.emulateMedia({ media: 'print' })
      const controls = page.locator(CONTROLS).and(page.locator(':visible:not(#q, .search-line)'))
      t.same(await controls.allTextContents(), [], `${path}: no controls`)
      t.same(await page.evaluate(CUT_OFF), [], `${path}: nothing is cut off`)
      t.same(await page.evaluate(INK), [], `${path}: dark letters on white`)
      const display = await page
        .locator('main thead')
        .first()
        .evaluate((one) => getComputedStyle(one).display)
      t.equal(display, 'table-header-group', `${path}: a table, with its heads on each sheet`)
    }
    await page.emulateMedia({ media: 'screen' })
    await page.setViewportSize({ width: 1_280, height: 700 })
  })

  await t.test('a printed feed says what was asked, and how much of it is there', async () => {
    await page.goto(`${url}/?type=marketplace&q=automotive`)
    await page.waitForSelector('td.signal a')
    await page.emulateMedia({ media: 'print' })
    await page.locator('#q:visible').waitFor()
    await page.locator('.facet:visible', { hasText: 'marketplace' }).waitFor()
    await page.emulateMedia({ media: 'screen' })
    await page.goto(url)
    await page.getByText(/The first 50 of \d+/).waitFor()
  })

  await t.test('a signal is come back to where it was left, with what was opened', async (t) => {
    const top = () => page.evaluate('scrollY')
    const scrolled = () =>
      page.evaluate(`new Promise((done) => {
        addEventListener('scrollend', done, { once: true })
        scrollTo(0, 700)
      })`)
    const shown = async () => {
      await page.waitForSelector('.way')
      await page.waitForSelector('details[open]')
      t.equal(await top(), 700)
    }
    await page.goto(`${url}/?provider=motorledger.example`)
    await page.locator(`td.signal a[href*="${handle}"]`).click()
    await page.locator('details summary').first().click()
    await scrolled()
    await page
      .locator('a[href*="page=upstreams&"]')
      .first()
      .evaluate((one) => one.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true })))
    await page.waitForSelector('.choices')
    t.equal(await top(), 0)
    await page.goBack()
    await shown()
    await page.goBack()
    await page.waitForSelector('td.signal a')
    await page.goForward()
    await shown()
    await page.reload()
    await shown()
  })
  t.same(faults, [])
})
