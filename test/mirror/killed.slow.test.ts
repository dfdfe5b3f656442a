/** Mirrors that are killed in the middle of a walk, as processes of their own. */
import { startCommand } from '../support/command.js'
import { BUYER_TOKEN } from '../support/server-fixture.js'
import { onEveryCopy } from './support/copies.js'
import { content, startFeed } from './support/feed.js'

onEveryCopy('a mirror that is killed in a walk leaves the copy as it was', async (t, place) => {
  const { feed, gate, feedNow, mirrorAt } = await startFeed(t)
  const first = await mirrorAt(place)
  await first.read()
  await first.close()
  const before = await feedNow()
  feed.publishContent(content(100, 400, 7), 1)

  const reached = new Promise<void>((resolve) => {
    gate.before(({ pagination }) => {
      if (pagination?.cursor === undefined) return undefined
      resolve()
      return new Promise(() => {}) // the second page never comes
    })
  })
  const { out, format } = place
  const args = ['mirror', '--url', gate.url, '--token', BUYER_TOKEN, '--out', out, '--format', format]
  const command = startCommand(args)
  await Promise.race([
    reached,
    command.finished.then(({ err }) => Promise.reject(new Error(`it ended: ${err}`))),
  ])
  command.process.kill('SIGKILL')
  await command.finished
  t.same(await place.rows(), before)

  gate.before(() => undefined)
  const next = await mirrorAt(place)
  t.match(await next.read(), { kind: 'replaced', state: { rows: 300 } })
  t.same(await place.rows(), await feedNow())
  await next.close()
})
