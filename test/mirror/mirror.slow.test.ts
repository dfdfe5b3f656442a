/** A mirror over HTTP against a running server: what it holds is what a walk gives, whatever happens on the way. */
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { overlayName } from '../../src/feed/query.js'
import type { FeedReading } from '../../src/mirror/reading.js'
import { systemClock } from '../../src/net/clock.js'
import { startCommand } from '../support/command.js'
import { sameRows } from '../support/same-rows.js'
import { BUYER_TOKEN } from '../support/server-fixture.js'
import { linesPlace, onEveryCopy } from './support/copies.js'
import { content, startFeed } from './support/feed.js'

const run = promisify(execFile)

const LONG_AGO = 0 // what was replaced then is kept for no walk

onEveryCopy('a copy is the feed, and stays it', async (t, place) => {
  const { feed, gate, feedNow, mirrorAt } = await startFeed(t)
  const mirror = await mirrorAt(place)
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 250, scope: 'public' } })
  sameRows(t, await place.rows(), await feedNow())

  const asked = gate.asked.length
  t.match(await mirror.read(), { kind: 'unchanged', state: { rows: 250 } })
  t.equal(gate.asked.length, asked + 1, 'one question')

  feed.publishContent({ listings: [...content(3, 200).listings, ...content(200, 260, 9).listings] }, 1)
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 257 } })
  sameRows(t, await place.rows(), await feedNow(), 'rows that went, came, changed and stayed')

  await mirror.close()
  const again = await mirrorAt(place)
  t.match(await again.read(), { kind: 'unchanged' }, 'another process goes on where it ended')
  await again.close()

  await place.spoil()
  const repaired = await mirrorAt(place)
  t.match(await repaired.read(), { kind: 'replaced' }, 'a copy that somebody changed is read again')
  sameRows(t, await place.rows(), await feedNow())
  await repaired.close()

  await t.rejects(mirrorAt(place, { filters: { catalog_types: ['owned'] } }), /a copy of something else/)
})

onEveryCopy('a feed that moves between two pages is never copied in part', async (t, place) => {
  const { feed, gate, feedNow, mirrorAt } = await startFeed(t)
  const mirror = await mirrorAt(place)
  const began = await feedNow()
  let moves = 0
  gate.before(({ pagination }) => {
    if (pagination?.cursor !== undefined && moves === 0) {
      moves += 1
      feed.publishContent(content(0, 250, 2), Date.now())
    }
    return undefined
  })
  t.match(await mirror.read(), { kind: 'replaced' })
  sameRows(t, await place.rows(), began, 'the walk goes on in the feed in which it began')

  gate.before(({ pagination }) => {
    if (pagination?.cursor !== undefined && moves < 3) {
      moves += 1
      feed.publishContent(content(0, 250 - moves, 2 + moves), LONG_AGO)
    }
    return undefined
  })
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 247 } })
  t.equal(moves, 3, 'it began again when its feed had to be let go')
  sameRows(t, await place.rows(), await feedNow())
  await mirror.close()
})

test("an account's copy is what the account reads, and the public one when it has nothing of its own", async (t) => {
  const own = content(0, 250, 0.5).listings
  const { feed, feedNow, mirrorAt } = await startFeed(t, { [overlayName('buyer', 'acc_1')]: own })
  const place = await linesPlace(t)
  const mirror = await mirrorAt(place, { account: 'acc_1' })
  t.match(await mirror.read(), { kind: 'replaced', state: { scope: 'account' } })
  sameRows(t, await place.rows(), await feedNow({ account: { account_id: 'acc_1' } }))
  t.notSame(await place.rows(), await feedNow())
  t.match(await mirror.read(), { kind: 'unchanged' })

  feed.publishContent(content(0, 250), 1)
  t.match(await mirror.read(), { kind: 'replaced', state: { scope: 'public' } })
  sameRows(t, await place.rows(), await feedNow())
  await mirror.close()
  await t.rejects(mirrorAt(place), /a copy of something else/, 'a place holds the copy for one account')
})

test('a place is for one mirror, and a refusal leaves the copy alone', async (t) => {
  const { feed, gate, feedNow, mirrorAt } = await startFeed(t)
  const place = await linesPlace(t)
  const mirror = await mirrorAt(place)
  await mirror.read()
  await t.rejects(mirrorAt(place), /in use/)
  const before = await feedNow()
  feed.publishContent(content(0, 150), 1)
  const reached = new Promise<void>((resolve) => {
    gate.before(({ pagination }) => {
      if (pagination?.cursor === undefined) return undefined
      resolve()
      return new Promise(() => {})
    })
  })
  const reading = mirror.read()
  await reached
  await mirror.close()
  t.match(await reading, { kind: 'failed', reason: 'trouble' }, 'closed in the middle of a walk')
  sameRows(t, await place.rows(), before)
  gate.before(() => undefined)
  const stranger = await mirrorAt(place, { token: 'no-such-key' })
  t.match(await stranger.read(), { kind: 'failed', reason: 'refused' })
  sameRows(t, await place.rows(), before)
})

test('a walk outlives a server that is away for a page', async (t) => {
  const { gate, feedNow, mirrorAt } = await startFeed(t)
  const place = await linesPlace(t)
  const statuses = [503, 429, 500]
  gate.before(({ pagination }) => (pagination?.cursor === undefined ? undefined : statuses.shift()))
  const clock = { ...systemClock, after: (_ms: number, task: () => void) => systemClock.after(0, task) }
  const mirror = await mirrorAt(place, { clock })
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 250 } })
  t.equal(statuses.length, 0)
  sameRows(t, await place.rows(), await feedNow())
  t.equal(gate.asked.filter(({ pagination }) => pagination?.cursor === undefined).length, 1, 'one walk')
  await mirror.close()
})

test('a page is asked for again when Retry-After says', async (t) => {
  const { gate, mirrorAt } = await startFeed(t)
  const place = await linesPlace(t)
  const replies = [
    { status: 503, headers: { 'retry-after': '7' } },
    { status: 429, headers: { 'retry-after': new Date(systemClock.now() + 30_000).toUTCString() } },
    { status: 429, headers: { 'retry-after': 'soon' } },
  ]
  gate.before(() => replies.shift())
  const waits: number[] = []
  const after = (ms: number, task: () => void) => {
    waits.push(ms)
    return systemClock.after(0, task)
  }
  const mirror = await mirrorAt(place, { clock: { ...systemClock, after } })
  t.match(await mirror.read(), { kind: 'replaced' })
  const [seconds = 0, date = 0, neither = 0] = waits
  t.equal(seconds, 7_000)
  t.ok(date > 20_000 && date <= 30_000, `${date} ms`)
  t.ok(neither < 7_000, `${neither} ms`)
})

test('a disk that cannot be written is told, and tried again', async (t) => {
  const { feedNow, mirrorAt } = await startFeed(t)
  const place = await linesPlace(t)
  const inTheWay = join(place.out, 'feed.ndjson', 'a-folder')
  await mkdir(inTheWay, { recursive: true })
  const told: FeedReading[] = []
  const clock = { ...systemClock, after: (_ms: number, task: () => void) => systemClock.after(0, task) }
  const done = new Promise<void>((resolve) => {
    void mirrorAt(place, {
      clock,
      onReading(reading) {
        told.push(reading)
        if (reading.kind === 'failed') rmSync(join(place.out, 'feed.ndjson'), { recursive: true })
        else resolve()
      },
    }).then((mirror) => mirror.follow())
  })
  await done
  const message = `${place.out} cannot be written: E`
  t.match(told.slice(0, 2), [{ kind: 'failed', reason: 'unwritten', message }, { kind: 'replaced' }])
  sameRows(t, await place.rows(), await feedNow())
})

test('the command follows the feed until it is told to end', async (t) => {
  const { feed, gate, feedNow } = await startFeed(t)
  const place = await linesPlace(t)
  const command = startCommand(
    ['mirror', '--url', gate.url, '--out', place.out, '--every', '1s', '--filters', '{"max_cpm":100}'],
    { TRIBUTARY_TOKEN: BUYER_TOKEN },
  )
  await command.printed(/^replaced: 250 signals, version \S+$/m)
  feed.publishContent(content(0, 120), 1)
  await command.printed(/^replaced: 120 signals/m)
  sameRows(t, await place.rows(), await feedNow())
  command.process.kill('SIGTERM')
  t.match(await command.finished, { code: 0, err: '' })
})

test('a program that imports it from the package, and does nothing else, goes on for as long as it follows', async (t) => {
  const { gate } = await startFeed(t)
  const { out } = await linesPlace(t)
  const program = `
    import { openFeedMirror } from '@tributary-adcp/tributary/mirror'
    const said = []
    const onReading = ({ kind }) => void (said.push(kind) < 3 || mirror.close())
    const mirror = await openFeedMirror({ url: '${gate.url}', out: ${JSON.stringify(out)}, everyMs: 1_000, onReading })
    await mirror.follow()
    console.log(said.join())`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program])
  t.equal(stdout, 'replaced,unchanged,unchanged\n')
})
