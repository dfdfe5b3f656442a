/** A world in which nothing changes by itself while a page of it is looked at, and a browser beside it. */
import { actingOn, KEYS, startWorld } from './built.js'
import { openBrowser } from './chromium.js'

/** Both end with the test. `act` does what operators do. @param {import('tap').Test} t */
export async function startStillWorld(t) {
  const world = await startWorld({
    signals: 240,
    config: () => ({
      callers: { anonymous: 'metadata', keys: KEYS },
      defaults: { refresh: '1h', timeout: '60s' },
    }),
  })
  t.teardown(() => world.close())
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const { url } = world.federation
  return { browser, url, act: actingOn(url) }
}
