import { test } from 'tap'
import { BUYER, OPERATOR } from './built.js'
import { enter, NO_BROWSER, openPage } from './chromium.js'
import { startStillWorld } from './still-world.js'

const NORTHWIND = 'signals.northwind.example'
const MOTORLEDGER = 'motorledger.example'

/** @typedef {import('playwright-core').Page} Page */

/** @param {Page} page */
const links = (page) =>
  page.locator('td.signal a').evaluateAll((all) => all.map((one) => one.getAttribute('href')))

/** @type {(page: Page, rows: number) => Promise<void>} */
async function shown(page, rows) {
  await page
    .locator('td.signal')
    .nth(rows - 1)
    .waitFor()
}

/**
 * Clicks in the same turn of the page in which something was typed, before the field is left.
 * @type {(page: Page, selector: string) => Promise<void>}
 */
const clickAtOnce = (page, selector) => page.evaluate(`document.querySelector('${selector}').click()`)

test('what readers do in the middle of something', { skip: NO_BROWSER }, async (t) => {
  const { browser, url, act } = await startStillWorld(t)
  const opened = async (path = '/', key = OPERATOR) => {
    const { page, faults } = await openPage(browser, url)
    await page.goto(url)
    await enter(page, key)
    await page.goto(`${url}${path}`)
    await page.waitForSelector('main :is(td, .facts, .trouble, .empty)')
    return { page, faults }
  }

  await t.test('a search that has just been typed takes nobody back', async (t) => {
    const { page, faults } = await opened()
    await page.clock.install()
    await page.clock.pauseAt(Date.now() + 10_000) // so that no pause of typing is over before it is let be
    await page.focus('#q')
    await page.keyboard.type('auto')
    await clickAtOnce(page, 'td.signal a')
    await page.waitForSelector('h1:not(.hidden)')
    await page.clock.runFor(1_000)
    t.match(page.url(), /\?signal=sig_/)
    await page.goBack()
    await page.waitForSelector('.facet input')
    await page.focus('#q')
    await page.keyboard.type('auto')
    await page.locator('.facet input').first().click()
    await page.clock.runFor(1_000)
    await page.waitForURL(/provider=/)
    t.match(page.url(), /q=auto/, 'the field was left, so both hold')
    t.equal(await page.inputValue('#q'), 'auto')
    t.same(faults, [])
  })

  await t.test('rows that were asked for are there again after Back, at the same place', async (t) => {
    const { page, faults } = await opened('/?sort=name')
    await page.click('button.next')
    await shown(page, 100)
    const before = await links(page)
    const link = page.locator('td.signal a').nth(90)
    await link.scrollIntoViewIfNeeded()
    const top = await page.evaluate('scrollY')
    await link.click()
    await page.waitForSelector('h1:not(.hidden)')
    await page.goBack()
    await shown(page, 100)
    t.same(await links(page), before)
    await link.and(page.locator(':visible')).waitFor()
    t.equal(await page.evaluate('scrollY'), top)
    await page.goForward()
    await page.waitForSelector('h1:not(.hidden)')
    await page.goBack()
    await shown(page, 100)
    t.equal(await page.evaluate('scrollY'), top, 'a second time too')
    await page.reload()
    await shown(page, 100)
    t.same(await links(page), before, 'after a reload too')
    t.same(faults, [])
  })

  await t.test('rows of several pages are those of one feed', async (t) => {
    const { page, faults } = await opened('/?sort=name')
    for (const rows of [100, 150, 200]) {
      await page.click('button.next')
      await shown(page, rows)
    }
    const before = String(await page.textContent('.total'))
    t.equal((await act('exclude-upstream', NORTHWIND)).status, 200)
    await page.locator('.total', { hasNotText: before }).waitFor()
    const found = await links(page)
    t.equal(new Set(found).size, found.length, 'none is shown twice')
    const total = Number.parseInt(String(await page.textContent('.total strong')), 10)
    t.equal(found.length, Math.min(total, 200))
    t.equal((await act('admit-upstream', `https://${NORTHWIND}/mcp`)).status, 200)
    await page.locator('.total', { hasText: before }).waitFor()
    t.same(faults, [])
  })

  await t.test('a filter keeps the place where it was chosen', async (t) => {
    const { page, faults } = await opened()
    await page.setViewportSize({ width: 1_000, height: 400 })
    const last = page.locator('.facet input').last()
    await last.focus()
    await page.keyboard.press('Space')
    await page.waitForURL(/max_cpm/)
    const { y = -1 } = (await last.boundingBox()) ?? {}
    t.ok(y >= 0 && y < 400, `at ${y}: in sight`)
    t.same(faults, [])
  })

  await t.test('what a link asks for can be seen, and taken away', async (t) => {
    const { page, faults } = await opened('/?min_coverage=50&max_percent=5&currency=EUR&max_cpm=3')
    await page.getByText('CPM at most, EUR').waitFor()
    await page.locator('label', { hasText: 'coverage of 50 % or more' }).locator(':checked').click()
    await page.waitForURL((there) => !there.search.includes('min_coverage'))
    const price = page.locator('.facet', { hasText: 'CPM at most' }).locator(':checked')
    t.equal(await price.count(), 1, 'also a price between two steps')
    await page.getByRole('button', { name: 'Clear 3 filters' }).click()
    await page.waitForURL((there) => there.search === '')
    t.same(faults, [])
  })

  await t.test('an order is told as chosen while its rows are awaited', async (t) => {
    const { page, faults } = await opened()
    await page.route('**/console/api/signals?sort=name', () => {}) // never answered
    await page.selectOption('.sort select', 'name')
    await page.waitForSelector('.waiting')
    t.equal(await page.inputValue('.sort select'), 'name')
    t.same(faults, [])
  })

  await t.test('news that come faster than answers keep no answer away', async (t) => {
    const { page, faults } = await opened()
    const asked = 'the answer that was asked for first'
    /** @type {(() => void)[]} */
    const waiting = []
    let news = 0
    await page.route('**/console/api/live', (route) => {
      news += 1
      for (const go of waiting.splice(0)) go()
      const body = `retry: 10\n\nevent: changed\ndata: ${JSON.stringify({ feed: String(news) })}\n\n`
      return route.fulfill({ contentType: 'text/event-stream', body })
    })
    let answers = 0
    let see = () => {}
    const seen = new Promise((resolve) => {
      see = () => resolve(undefined)
    })
    await page.route('**/console/api/signal?*', async (route) => {
      const before = news
      while (news < before + 3) await new Promise((resolve) => waiting.push(() => resolve(undefined)))
      answers += 1
      if (answers > 1) await seen // the next answer takes the place of the first
      const explanation = { signal: { name: answers === 1 ? asked : `what is asked after it, ${answers}` } }
      await route.fulfill({ json: { explanation } }).catch(() => {}) // who does not wait for it has left
    })
    await page.goto(`${url}/?signal=sig_x`)
    await page.getByRole('heading', { name: asked }).waitFor()
    see()
    await page.getByRole('heading', { name: 'what is asked after it' }).first().waitFor()
    t.same(faults, [])
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.close()
  })

  await t.test('an address that means nothing is told so', async (t) => {
    const { page, faults } = await opened()
    for (const name of ['constructor', '__proto__', 'nothing']) {
      await page.goto(`${url}/?page=${name}`)
      await page.getByText('There is no such page').waitFor()
    }
    t.same(faults, [])
  })

  await t.test('what an operator did is told beside what it was done to', async (t) => {
    const { page, faults } = await opened('/?page=providers')
    const rows = page.getByRole('region', { name: 'Providers' }).locator('tbody tr')
    const other = rows.filter({ hasNotText: MOTORLEDGER }).first()
    await other.getByRole('button', { name: 'Fetch now' }).click()
    await other.getByText('Asked').waitFor()
    await page.fill('#search-q', MOTORLEDGER)
    await rows.nth(1).waitFor({ state: 'detached' })
    t.notMatch(await rows.first().textContent(), /Asked/)
    t.same(faults, [])
  })

  await t.test('an upstream that was left out can be let in where it was left out', async (t) => {
    const { page, faults } = await opened(`/?page=upstreams&id=${NORTHWIND}`)
    page.on('dialog', (dialog) => dialog.accept())
    await page.getByRole('button', { name: 'Leave out' }).click()
    const left = page.getByRole('region', { name: 'Left out' }).locator('tr', { hasText: NORTHWIND })
    await left.getByRole('button', { name: 'Let in' }).click()
    await page.getByRole('heading', { name: NORTHWIND }).waitFor()
    t.same(faults, [])
  })

  await t.test('a server that has too much to do is asked again, and what is shown stays', async (t) => {
    const { page, faults } = await opened('/?page=callers')
    /** @type {((route: import('playwright-core').Route) => Promise<void>)[]} */
    const answers = [
      (route) => route.abort(),
      (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<html>Bad gateway</html>' }),
      (route) => route.fulfill({ status: 429, headers: { 'retry-after': '1' }, json: { error: 'slower' } }),
    ]
    for (const answer of answers) {
      await page.route('**/console/api/overview', answer)
      await page.getByRole('link', { name: 'Server' }).click()
      await page.waitForSelector('main .trouble')
      t.notMatch(await page.textContent('main'), /JSON/)
      await page.unroute('**/console/api/overview')
      await page.waitForSelector('main .facts')
      await page.getByRole('link', { name: 'Callers' }).click()
      await page.waitForSelector('main td')
    }
    await page.getByRole('link', { name: 'Audit' }).click()
    await page.waitForSelector('main table')
    const asked = page.waitForRequest('**/console/api/audit')
    await page.route('**/console/api/audit', (route) => route.abort())
    await asked
    await page.waitForEvent('requestfailed')
    t.equal(await page.locator('main table').count(), 1, 'the entries are still there')
    await page.route('**/console/api/session', (route) => route.fulfill({ status: 503, body: 'starting' }))
    await page.reload()
    await page.waitForSelector('.trouble')
    await page.unrouteAll()
    await page.waitForSelector('main table')
    t.same(faults, [])
  })

  await t.test('a page whose session ended, or is another, asks for a key or goes on', async (t) => {
    const { page, faults } = await opened('/?page=callers')
    const other = await page.context().newPage()
    const untold = 'BroadcastChannel.prototype.postMessage = () => {}' // neither tells the other
    await other.addInitScript(untold)
    await page.evaluate(`{ ${untold} }`)
    const signedOut = async () => {
      await other.getByRole('button', { name: 'Sign out' }).click()
      await other.waitForSelector('#key')
    }
    await other.goto(url)
    await other.waitForSelector('td.signal a')
    await signedOut()
    await page.getByRole('link', { name: 'Providers' }).click()
    await page.waitForSelector('#key')
    await enter(page, OPERATOR)
    t.match(page.url(), /page=providers/, 'the address is kept')
    await enter(other, OPERATOR)
    await signedOut()
    await enter(other, OPERATOR)
    await page.getByRole('button', { name: 'Fetch now' }).first().click()
    await page.getByText('Asked').waitFor()
    await signedOut()
    await enter(other, BUYER)
    // The page may have asked who is signed in already: then the link is gone, which a click that waits would not forgive.
    await page.evaluate(
      `Array.from(document.querySelectorAll('nav a')).find((link) => link.textContent === 'Callers')?.click()`,
    )
    await page.locator('.who', { hasText: 'buyer' }).waitFor()
    t.same(faults, [])
  })

  await t.test('a tab that stood idle shows who signed in elsewhere', async (t) => {
    const { page, faults } = await opened('/?page=server')
    const other = await page.context().newPage()
    await other.goto(url)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForSelector('#key')
    await enter(other, BUYER)
    await page.locator('.who', { hasText: 'buyer' }).waitFor()
    await page.getByText('There is no such page for this key').waitFor()
    t.same(faults, [])
  })

  await t.test('a filter finds as many as it says, however its value is written', async (t) => {
    const { page, faults } = await opened()
    for (const legend of ['CPM at most', 'Country']) {
      await page.goto(url)
      const first = page.locator('.facet', { hasText: legend }).locator('label').first()
      const said = String(await first.locator('.number').textContent())
      await first.click()
      await page.locator('.total strong', { hasText: new RegExp(`^${said}$`) }).waitFor()
    }
    await page.goto(`${url}/?country=de&provider=MotorLedger.example`)
    const germany = page.locator('.facet', { hasText: 'Country' }).locator('label').first()
    const total = await page.textContent('.total strong')
    t.equal(await germany.textContent().then((text) => text?.replaceAll(/\s/g, '')), `Germany${total}`)
    t.equal(await page.locator('.facet :checked').count(), 2)
    await germany.click()
    await page.waitForURL((there) => !there.search.includes('country'))
    t.same(faults, [])
  })

  await t.test('pages that nobody sees leave their connections to others', async (t) => {
    const { page, faults } = await opened()
    /** @type {(hidden: boolean) => string} */
    const turned = (hidden) =>
      `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
       document.dispatchEvent(new Event('visibilitychange'))`
    await page.evaluate(turned(true)) // without a screen every page counts as seen
    for (let tabs = 2; tabs <= 9; tabs += 1) {
      const other = await page.context().newPage()
      await other.goto(url)
      await other.waitForSelector('td.signal a')
      await other.evaluate(turned(true))
    }
    const before = String(await page.textContent('.total'))
    t.equal((await act('exclude-upstream', NORTHWIND)).status, 200)
    await page.evaluate(turned(false))
    await page.locator('.total', { hasNotText: before }).waitFor()
    t.equal(await page.locator('.lost').count(), 0)
    t.equal((await act('admit-upstream', `https://${NORTHWIND}/mcp`)).status, 200)
    t.same(faults, [])
  })

  await t.test('nobody is told to be signed out who is not', async (t) => {
    const { page } = await opened()
    await page.route('**/console/api/session', (route) =>
      route.request().method() === 'DELETE' ? route.abort() : route.continue(),
    )
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('alert').filter({ hasText: 'Not signed out' }).waitFor()
    await page.unrouteAll()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForSelector('#key')
    await page.reload()
    t.ok(await page.waitForSelector('#key'))
  })
})
