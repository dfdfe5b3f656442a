/** A real Chromium from the distribution's packages, and pages that are watched for what they must not do. */
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const CHROMIUM = PLACES.find((place) => existsSync(place))
/** For tap: why the tests of the page are left out, or false. */
export const NO_BROWSER = CHROMIUM === undefined && 'no Chromium here: apt-get install chromium'

const FLAGS =
  '--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync'

/**
 * `named`: a host name, and the host and port of this machine where it leads to.
 * @param {string} [named]
 */
export function openBrowser(named) {
  const args = FLAGS.split(' ')
  if (named !== undefined) args.push(`--host-resolver-rules=MAP ${named}`)
  return chromium.launch({ executablePath: CHROMIUM, headless: true, args })
}

/**
 * Gives a key to a page that asks for one; `shown`: what comes then.
 * @type {(page: import('playwright-core').Page, key: string, shown?: string) => Promise<void>}
 */
export async function enter(page, key, shown = 'td.signal a') {
  await page.fill('#key', key)
  await page.keyboard.press('Enter')
  await page.waitForSelector(shown)
}

/**
 * A page of its own session. `faults`: violations of the Content-Security-Policy, errors of scripts, requests to other
 * hosts; there must be none. `bodies`: promises of every body that the browser was sent.
 * @param {import('playwright-core').Browser} browser
 * @param {string} base
 * @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function openPage(browser, base, options = {}) {
  const context = await browser.newContext(options)
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  /** @type {string[]} */
  const faults = []
  /** @type {Promise<string>[]} */
  const bodies = []
  page.on('pageerror', ({ message }) => faults.push(message))
  page.on('console', (message) => {
    if (/Content.Security.Policy/i.test(message.text())) faults.push(message.text())
  })
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol !== 'data:' && origin !== new URL(base).origin) faults.push(`a request to ${origin}`)
  })
  page.on('response', (response) => {
    if (!response.url().endsWith('/live')) bodies.push(response.text().catch(() => ''))
  })
  const watch = await context.newCDPSession(page) // a stream of events has no body until it ends
  watch.on('Network.eventSourceMessageReceived', ({ data }) => bodies.push(Promise.resolve(data)))
  await watch.send('Network.enable')
  return { page, faults, bodies }
}
