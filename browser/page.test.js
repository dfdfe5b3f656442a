import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { test } from 'tap'
import { actingOn, BUYER, digest, KEYS, OPERATOR, OTHER, startWorld } from './built.js'
import { enter, NO_BROWSER, openBrowser, openPage } from './chromium.js'

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const run = promisify(execFile)
const NORTHWIND = 'signals.northwind.example'
const PAGES = [
  '/',
  '/?page=upstreams',
  `/?page=upstreams&id=${NORTHWIND}`,
  '/?page=providers',
  '/?page=callers',
  '/?page=server',
  '/?page=audit',
  '/?page=activity',
]

/** @typedef {import('playwright-core').Page} Page */

/**
 * What axe finds wrong with the page. Playwright runs it apart from the page's own scripts, whose policy stays as it is.
 * @param {Page} page
 * @returns {Promise<string[]>}
 */
async function violations(page) {
  await page.evaluate(await import('node:fs/promises').then(({ readFile }) => readFile(AXE, 'utf8')))
  /** @type {{ violations: { id: string, nodes: { html: string }[] }[] }} */
  const found = await page.evaluate('axe.run()')
  return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))
}

/** @type {(page: Page, base: string, key: string) => Promise<void>} */
async function signIn(page, base, key) {
  await page.goto(base)
  await enter(page, key, '.bar')
}

/**
 * Presses Tab until the focus is on what is looked for, as somebody without a mouse does.
 * @type {(page: Page, selector: string) => Promise<void>}
 */
async function tabTo(page, selector) {
  for (let presses = 0; presses < 200; presses += 1) {
    if (await page.evaluate(`document.activeElement?.matches(${JSON.stringify(selector)})`)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`Tab never reaches ${selector}`)
}

/** @param {Page} page */
async function ready(page) {
  await page.waitForSelector('main table tbody tr, main .facts > *, main .empty, main .way, .sign-in form')
}

/**
 * What a button puts on the clipboard.
 * @type {(page: Page, label: string) => Promise<string>}
 */
async function copied(page, label) {
  await page.evaluate("navigator.clipboard.writeText('')")
  await page.getByRole('button', { name: label }).click()
  const held = await page.waitForFunction('navigator.clipboard.readText()')
  return String(await held.jsonValue())
}

const handles = (/** @type {string} */ text) => [...new Set(text.match(/sig_[\w-]{22}(?![\w.-])/g))]

/** What reaches beyond the window though nothing around it scrolls: it is cut off, or makes the page wider. */
const TOO_WIDE = `[...document.querySelectorAll('body *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll, pre, nav'))
  .map((one) => one.outerHTML.slice(0, 120))`

/** Rows with other cells than the table has columns: a cell would be told under the word of another. */
const OUT_OF_COLUMN = `[...document.querySelectorAll('main table[role] tbody tr')]
  .filter((row) => row.cells.length !== row.closest('table').tHead.rows[0].cells.length)
  .map((row) => row.closest('.scroll').getAttribute('aria-label'))`

/** How far the name in the bar is from the left edge of what is below. */
const OFF_LINE = `Math.round(document.querySelector('.brand').getBoundingClientRect().left -
  document.querySelector('main > :not(.hidden)').getBoundingClientRect().left)`

/** What the other buyer has that no answer to anybody else may name; the operator is shown it. */
const PLANTED = {
  destinations: [{ type: 'platform', platform: 'planted-platform', account: 'planted-seat' }],
  accounts: { 'planted-account': { [`https://${NORTHWIND}/mcp`]: { account_id: 'planted-at-northwind' } } },
}

test('the page in a browser', { skip: NO_BROWSER }, async (t) => {
  const world = await startWorld({
    signals: 96,
    config: () => ({
      callers: {
        anonymous: 'metadata',
        keys: KEYS.map((key) => (key.id === 'other' ? { ...key, ...PLANTED } : key)),
      },
      defaults: { refresh: '1s', timeout: '60s' },
    }),
  })
  t.teardown(() => world.close())
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const { url } = world.federation

  await t.test('search and open a signal, by keyboard alone', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await page.goto(url)
    await page.waitForSelector('#key:focus')
    t.same(await violations(page), [])
    await page.keyboard.type('a wrong key')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[role="alert"]')
    await enter(page, OPERATOR, 'td.signal')
    const all = await page.textContent('.total')
    await tabTo(page, '#q')
    await page.keyboard.type('auto')
    await page.locator('.total', { hasNotText: String(all) }).waitFor()
    t.match(page.url(), /\?q=auto$/, 'a link for what is shown')
    await tabTo(page, 'td.signal a')
    const name = await page.evaluate('document.activeElement.textContent')
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:not(.hidden)')
    t.equal(await page.textContent('h1'), name)
    t.match(await page.textContent('main'), /Offers.*Deployments.*adagents\.json/s)
    t.same(await violations(page), [])
    await page.goBack()
    await page.waitForSelector('td.signal')
    t.equal(await page.inputValue('#q'), 'auto')
    await tabTo(page, '.facet input')
    await page.keyboard.press('Space')
    await page.waitForSelector('button.clear')
    t.match(page.url(), /provider=/)
    await page.waitForSelector('.facet input:focus:checked')
    await page.goto(`${url}/?page=upstreams`)
    await page.waitForSelector('td.signal')
    await page.focus('#search-q')
    await page.keyboard.type('meri', { delay: 30 })
    t.equal(
      await page.inputValue('#search-q'),
      'meri',
      'the field keeps the focus while it changes the address',
    )
    await page.fill('#search-q', '')
    await page.waitForURL((there) => !there.search.includes('q='))
    await page.route('**/console/api/upstreams?id=*', () => {}) // never answered
    // A row that tells how long ago something was may move from under a click.
    await page.locator('td.signal a', { hasText: 'oldmill' }).press('Enter')
    await page.waitForURL(/id=/)
    // The answer about all upstreams is not shown as that about one.
    await page.locator('main', { hasText: 'Loading' }).waitFor()
    t.same(faults, [])
  })

  await t.test(
    'a question that is copied asks for the same, from a shell, over MCP and over A2A',
    async (t) => {
      const { page, faults } = await openPage(browser, url, {
        permissions: ['clipboard-read', 'clipboard-write'],
      })
      await signIn(page, url, BUYER)
      await page.waitForSelector('td.signal a')
      const link = String(await page.getAttribute('td.signal a', 'href'))
      const filtered = '/?provider=motorledger.example&country=DE'
      for (const path of [filtered, link]) {
        await page.goto(`${url}${path}`)
        await ready(page)
        const asked = new URLSearchParams(path.slice(2))
        const shown = asked.has('signal')
          ? [asked.get('signal')]
          : handles(await (await page.request.get(`${url}/console/api/signals?${asked}&sort=name`)).text())
        const { stdout } = await run('sh', ['-c', await copied(page, 'Copy as curl')], {
          env: { ...process.env, TRIBUTARY_TOKEN: BUYER },
        })
        /** @type {(where: string, body: string, headers?: Record<string, string>) => Promise<string>} */
        const post = async (where, body, headers) => {
          const authorization = `Bearer ${BUYER}`
          const answer = await fetch(`${url}/${where}`, {
            ...{ method: 'POST', body },
            headers: { authorization, 'content-type': 'application/json', ...headers },
          })
          return answer.text()
        }
        const overMcp = await post('mcp', await copied(page, 'as MCP'), {
          accept: 'application/json, text/event-stream',
        })
        const overA2a = await post('a2a', await copied(page, 'as A2A'), { 'A2A-Version': '1.0' })
        for (const answer of [stdout, overMcp, overA2a])
          t.same(handles(answer).sort(), [...shown].sort(), path)
        t.ok(shown.length > 0)
      }
      t.same(faults, [])
    },
  )

  await t.test('columns put the rows in order, and turn it around', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.waitForSelector('td.signal a')
    await page.getByRole('button', { name: 'Price from' }).click()
    await page.waitForSelector('th[aria-sort="ascending"]')
    t.match(page.url(), /sort=price$/)
    await page.getByRole('button', { name: 'Price from' }).click()
    await page.waitForSelector('th[aria-sort="descending"]')
    await page.getByRole('button', { name: 'Signal', exact: true }).click()
    await page.locator('th[aria-sort="ascending"]', { hasText: 'Signal' }).waitFor()
    await page.waitForFunction("!document.querySelector('.waiting')")
    const names = (await page.locator('td.signal a').allTextContents()).map((name) => name.toLowerCase())
    t.same(names, [...names].sort())
    const aligned =
      "[...new Set([...document.querySelectorAll('td.right')].map((one) => getComputedStyle(one).textAlign))]"
    t.same(await page.evaluate(aligned), ['right'], 'numbers stand under each other')
    t.same(faults, [])
  })

  await t.test('says why a signal is not there, and how far it comes', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.fill('#q', 'qqzzqqzz')
    await page.getByRole('link', { name: /^Why is there no/ }).click()
    await page.waitForSelector('.way')
    t.equal((await page.locator('.way .bad').count()) > 0, true)
    t.same(await violations(page), [])
    t.same(faults, [])
  })

  await t.test('fits a phone and a wall, in the light and in the dark, and has no barrier', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.waitForSelector('td.signal a')
    const link = await page.getAttribute('td.signal a', 'href')
    const absent = '/?signal=signals.fogbank.example'
    for (const path of [...PAGES, String(link), absent]) {
      await page.goto(`${url}${path}`)
      await ready(page)
      for (const width of [390, 1_400, 3_840]) {
        await page.setViewportSize({ width, height: 900 })
        t.same(await page.evaluate(TOO_WIDE), [], `${path} at ${width}: nothing is cut off`)
        const isWide = await page.evaluate('document.documentElement.scrollWidth > innerWidth')
        t.notOk(isWide, `${path} at ${width} is no wider than the window`)
      }
      t.same(await page.evaluate(OUT_OF_COLUMN), [], `${path}: each cell has its column`)
      t.equal(await page.evaluate(OFF_LINE), 0, `${path}: the bar begins where the content does`)
      await page.setViewportSize({ width: 390, height: 900 })
      for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
        await page.emulateMedia({ colorScheme })
        t.same(await violations(page), [], `${path} in the ${colorScheme}`)
      }
    }
    await page.setViewportSize({ width: 1_400, height: 900 })
    await page.goto(`${url}/?page=providers`)
    await page.locator('summary').first().click()
    const hidden = await page.evaluate(
      "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.scroll'))",
    )
    t.equal(hidden, 0, 'the actions stay in sight when the agents of a provider are shown')
    await page.getByText('the provider publishes no adagents.json').waitFor()
    t.same(faults, [])
  })

  await t.test('an upstream is seen to fail and to recover, without a reload', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.goto(`${url}/?page=upstreams`)
    const row = page.locator('tr', { hasText: NORTHWIND })
    await row.locator('.state', { hasText: 'fresh' }).waitFor()
    await page.evaluate('window.mark = 1')
    await world.sandbox.stop(NORTHWIND)
    await row.locator('.state', { hasText: 'stale' }).waitFor()
    await row.getByText('no connection can be made to it').waitFor()
    await world.sandbox.restart(NORTHWIND)
    await row.locator('.state', { hasText: 'fresh' }).waitFor()
    t.equal(await page.evaluate('window.mark'), 1)
    t.same(faults, [])
  })

  await t.test('plots are drawn', async (t) => {
    const { page, faults } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.goto(`${url}/?page=upstreams&id=${NORTHWIND}`)
    await page.waitForSelector('.plot canvas')
    /**
     * How many pixels have the colour of a line, which neither axes nor grid have.
     * @type {(title: string, name: string) => string}
     */
    const drawn = (title, name) => `(() => {
      const plot = [...document.querySelectorAll('.plot')].find((one) => one.textContent.startsWith('${title}'))
      const canvas = plot.querySelector('canvas')
      const pen = document.createElement('canvas').getContext('2d')
      pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('${name}').trim()
      pen.fillRect(0, 0, 1, 1)
      const wanted = pen.getImageData(0, 0, 1, 1).data
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      let found = 0
      for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] > 60 && [0, 1, 2].every((part) => Math.abs(data[at + part] - wanted[part]) < 16)) found += 1
      return found
    })()`
    for (const [title, name] of /** @type {const} */ ([
      ['Rows', '--good'], // drawn over the rows that were read, which may be as many
      ['Slowest answer', '--accent'],
    ])) {
      let line = 0 // the first point comes when something was read
      for (const end = Date.now() + 60_000; line <= 3 && Date.now() < end; await page.waitForTimeout(50)) {
        line = await page.evaluate(drawn(title, name))
      }
      t.ok(line > 3, `${title}: ${line} pixels of a line`)
      t.equal(await page.evaluate(drawn(title, '--bad')), 0, 'and none of a line that it does not have')
    }
    t.same(faults, [])
  })

  await t.test('what happened to a signal is listed and drawn', async (t) => {
    const { page, faults } = await openPage(browser, url)
    const act = actingOn(url)
    await signIn(page, url, OPERATOR)
    await page.goto(`${url}/?upstream=${NORTHWIND}&sort=sellers`)
    const link = String(await page.locator('td.signal a').last().getAttribute('href'))
    await page.goto(`${url}${link}`)
    await page.getByText('Nothing about it has changed').waitFor()
    t.equal((await act('exclude-upstream', NORTHWIND)).status, 200)
    await page.waitForSelector('.plot canvas')
    const table = page.getByRole('region', { name: 'Changes' })
    await table.getByText(/^(left|changed|priced anew)$/).waitFor()
    t.equal((await act('admit-upstream', `https://${NORTHWIND}/mcp`)).status, 200)
    await table.locator('tbody tr').nth(1).waitFor()
    t.same(await violations(page), [])
    t.same(faults, [])
  })

  await t.test('a buyer is sent nothing of anybody else', async (t) => {
    const { page, faults, bodies } = await openPage(browser, url)
    await signIn(page, url, BUYER)
    await page.waitForSelector('td.signal a')
    await page.click('td.signal a')
    await page.waitForSelector('h1:not(.hidden)')
    for (const path of PAGES) {
      await page.goto(`${url}${path}`)
      await page.waitForSelector('main table tbody tr, main .trouble')
    }
    t.equal(await page.locator('nav a').count(), 1, 'no page of operators')
    const sent = (await Promise.all(bodies)).join('\n')
    const cookies = JSON.stringify(await page.context().cookies(`${url}/console`))
    for (const secret of [
      OPERATOR,
      OTHER,
      BUYER,
      ...[OPERATOR, OTHER, BUYER].map(digest),
      '"other"',
      '"op"',
      'planted',
    ]) {
      t.notOk(sent.includes(secret), `no ${secret} in what the browser was sent`)
      t.notOk(cookies.includes(secret))
    }
    t.equal(await page.evaluate('document.cookie'), '', 'no script reads the session')
    t.match(sent, /"feed":/, 'events were looked at too')
    t.same(faults, [])

    const operator = await openPage(browser, url)
    await signIn(operator.page, url, OPERATOR)
    await operator.page.goto(`${url}/?page=callers`)
    await ready(operator.page)
    const all = (await Promise.all(operator.bodies)).join('\n')
    for (const planted of ['planted-platform', 'planted-seat', 'planted-account']) {
      t.ok(all.includes(planted), `${planted} would have been found`)
    }
  })

  await t.test('says that the server is lost', async (t) => {
    const { page } = await openPage(browser, url)
    await signIn(page, url, OPERATOR)
    await page.waitForSelector('td.signal')
    await world.federation.close()
    await page.waitForSelector('.lost')
    t.match(await page.textContent('.lost'), /has not been heard since/)
  })
})
