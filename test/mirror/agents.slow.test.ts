/** What a mirror makes of agents that are not as the protocol wants them, on the official SDK's server. */
import { existsSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { type Test, test } from 'tap'
import { forTerminal } from '../../src/adcp/redaction.js'
import { createFeedAsker } from '../../src/mirror/feed-asker.js'
import { type FeedMirrorOptions, openFeedMirror } from '../../src/mirror/mirror.js'
import { systemClock } from '../../src/net/clock.js'
import { runCommand } from '../support/command.js'
import { readJson, startHttp, startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { linesPlace, onEveryCopy, type Place } from './support/copies.js'
import { startGate } from './support/gate.js'

const HOUR_MS = 3_600_000

const rowsOf = (count: number, name = 'plain') =>
  Array.from({ length: count }, (_, n) => ({
    signal_agent_segment_id: `seg_${String(n).padStart(4, '0')}`,
    name: `${name} ${n}`,
  }))

/** An agent whose answers pass through `bend`, and a clock on which nobody waits and which the test moves. */
async function start(t: Test, place: Place, bend: (answer: Row, asked: Row) => Row = (answer) => answer) {
  const feed = wholesaleAgent(rowsOf(230), 'v1')
  const asked: Row[] = []
  const handler: TaskHandler = (task, args) => {
    const answer = feed.handle(task, args)
    if (task === 'get_signals') asked.push(args)
    return answer && bend(answer, args)
  }
  const agent = await startMcpAgent(handler, { sessions: true, json: false })
  t.teardown(agent.close)
  const time = { past: 0 }
  const clock = {
    now: () => systemClock.now() + time.past,
    after: (_ms: number, task: () => void) => systemClock.after(0, task),
  }
  const mirrorAt = async (more: Partial<FeedMirrorOptions> = {}) => {
    const { out, format } = place
    const mirror = await openFeedMirror({ url: agent.url, out, format, clock, ...more })
    t.teardown(mirror.close)
    return mirror
  }
  return { feed, agent, asked, time, mirrorAt }
}

type Row = Record<string, unknown>

test('any agent of the protocol is mirrored, over sessions that get lost and event streams', async (t) => {
  const place = await linesPlace(t)
  const { feed, agent, mirrorAt } = await start(t, place)
  const mirror = await mirrorAt()
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v1', rows: 230 } })
  t.same(await place.rows(), rowsOf(230))
  agent.forget()
  feed.publish(rowsOf(120, 'new'), 'v2')
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v2', rows: 120 } })
  t.same(await place.rows(), rowsOf(120, 'new'))
})

test('"unchanged" under a version that is not ours is not believed', async (t) => {
  const place = await linesPlace(t)
  const { feed, mirrorAt } = await start(t, place, (answer, asked) =>
    asked.if_wholesale_feed_version ? { ...answer, unchanged: true, signals: undefined } : answer,
  )
  const mirror = await mirrorAt()
  await mirror.read()
  t.match(await mirror.read(), { kind: 'unchanged' })
  feed.publish(rowsOf(10, 'new'), 'v2')
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v2' } })
  t.same(await place.rows(), rowsOf(10, 'new'))
})

test('an agent that takes no tokens is read no further than its first page while its version stays', async (t) => {
  const place = await linesPlace(t)
  const { asked, feed, mirrorAt } = await start(t, place, (answer, { pagination }) =>
    answer.unchanged ? (feed.handle('get_signals', { pagination }) as Row) : answer,
  )
  const mirror = await mirrorAt()
  await mirror.read()
  const before = asked.length
  t.match(await mirror.read(), { kind: 'unchanged' })
  t.equal(asked.length, before + 1)
  const size = { pagination: { max_results: 100 } }
  t.match(
    asked.at(-1),
    { ...size, if_wholesale_feed_version: 'v1' },
    'one that takes them gives no page at all',
  )
  t.match(asked[0], { ...size, if_wholesale_feed_version: undefined })
})

test('rows that change under one version are found within a day', async (t) => {
  const place = await linesPlace(t)
  const { feed, time, mirrorAt } = await start(t, place)
  const mirror = await mirrorAt()
  await mirror.read()
  feed.publish(rowsOf(230, 'other'), 'v1')
  t.match(await mirror.read(), { kind: 'unchanged' }, 'the version is all that it can ask for')
  time.past += 25 * HOUR_MS
  t.match(await mirror.read(), { kind: 'replaced' })
  t.same(await place.rows(), rowsOf(230, 'other'))
  t.match(await mirror.read(), { kind: 'unchanged' })
})

test('rows are found within a day also when the walk before was timed by a clock that was wrong', async (t) => {
  const place = await linesPlace(t)
  const { feed, time, mirrorAt } = await start(t, place)
  const mirror = await mirrorAt()
  time.past = 10_000 * HOUR_MS
  await mirror.read()
  feed.publish(rowsOf(99), 'v1')
  t.match(await mirror.read(), { kind: 'unchanged' })
  time.past = 0
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 99 } })
})

const STATES: [string, (state: Row) => unknown][] = [
  ['no list of gaps', ({ incomplete: _, ...state }) => state],
  ['no number of rows', (state) => ({ ...state, rows: 'many' })],
  ['no time', (state) => ({ ...state, walkedAt: null })],
  ['a version that is none', (state) => ({ ...state, version: 7 })],
  ['nothing', () => null],
]

onEveryCopy('a state that somebody changed into none is no state', async (t, place) => {
  const { mirrorAt } = await start(t, place)
  const first = await mirrorAt()
  await first.read()
  await first.close()
  for (const [what, bend] of STATES) {
    await place.spoilState((text) => JSON.stringify(bend(JSON.parse(text) as Row)))
    const mirror = await mirrorAt()
    t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v1', rows: 230 } }, what)
    await mirror.close()
  }
  await place.spoilState((text) => text.slice(0, -9))
  const mirror = await mirrorAt()
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v1', rows: 230 } }, 'cut')
})

test('a feed without versions is walked whole each time', async (t) => {
  const place = await linesPlace(t)
  const { feed, mirrorAt } = await start(t, place, ({ wholesale_feed_version: _, ...answer }) => answer)
  const mirror = await mirrorAt()
  t.match(await mirror.read(), { kind: 'replaced' })
  feed.publish(rowsOf(99), 'v1')
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 99 } })
  t.same(await place.rows(), rowsOf(99))
})

const UNSOUND: [string, (answer: Row, asked: Row) => Row][] = [
  [
    'fewer rows than it announced',
    (answer) => ({ ...answer, pagination: { ...(answer.pagination as Row), total_count: 500 } }),
  ],
  [
    'a last page that is cut and says no number',
    (answer, asked) =>
      (asked.pagination as Row).cursor === undefined
        ? answer
        : { ...answer, signals: (answer.signals as Row[]).slice(0, 10), pagination: undefined },
  ],
  ['pages without end', (answer) => ({ ...answer, pagination: { has_more: true, cursor: '100' } })],
  ['more to come and no way to it', (answer) => ({ ...answer, pagination: { has_more: true } })],
  ['a row without an id', (answer) => ({ ...answer, signals: [{ name: 'nobody' }] })],
  ['no rows at all', ({ signals: _, ...answer }) => answer],
]

for (const [what, bend] of UNSOUND) {
  test(`${what}: the copy stays`, async (t) => {
    const place = await linesPlace(t)
    let isBent = false
    const { feed, mirrorAt } = await start(t, place, (answer, asked) =>
      isBent ? bend(answer, asked) : answer,
    )
    const mirror = await mirrorAt()
    await mirror.read()
    isBent = true
    feed.publish(rowsOf(150, 'new'), 'v2')
    t.match(await mirror.read(), { kind: 'failed', reason: 'unsound' })
    t.same(await place.rows(), rowsOf(230))
    isBent = false
    t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v2' } })
    t.same(await place.rows(), rowsOf(150, 'new'))
  })
}

test('an answer without end is read no further than a page may be, and the copy stays', async (t) => {
  const place = await linesPlace(t)
  let isBent = false
  const { feed, mirrorAt } = await start(t, place, (answer) =>
    isBent ? { ...answer, message: 'x'.repeat(33 * 2 ** 20) } : answer,
  )
  const mirror = await mirrorAt()
  await mirror.read()
  isBent = true
  feed.publish(rowsOf(150, 'new'), 'v2')
  t.match(await mirror.read(), { kind: 'failed', reason: 'unsound', message: /more than 33554432 bytes/ })
  isBent = false
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v2' } })
})

onEveryCopy('what is nested too deep is no feed, and the copy stays', async (t, place) => {
  const nested = (depth: number) => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`) as unknown
  let bent: (answer: Row) => Row = (answer) => answer
  const { feed, mirrorAt } = await start(t, place, (answer) => bent(answer))
  const mirror = await mirrorAt()
  await mirror.read()
  feed.publish(rowsOf(150, 'new'), 'v2')
  for (const bend of [
    (answer: Row) => ({ ...answer, signals: [{ ...rowsOf(1)[0], ext: nested(3_000) }], pagination: {} }),
    (answer: Row) => ({ ...answer, incomplete: nested(3_000) }),
  ]) {
    bent = bend
    t.match(await mirror.read(), { kind: 'failed', reason: 'unsound', message: /nested/ })
    t.same(await place.rows(), rowsOf(230))
  }
  bent = (answer) => answer
  t.match(await mirror.read(), { kind: 'replaced', state: { version: 'v2' } })
})

test('a refusal that never ends is waited for no longer than an answer', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent(rowsOf(1), 'v1').handle)
  t.teardown(agent.close)
  const dripping = (response: ServerResponse) => {
    const timer = setInterval(() => response.write('x'), 5)
    response.on('close', () => clearInterval(timer)).writeHead(503, { 'content-type': 'text/plain' })
  }
  const gate = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as { method?: string }
    if (body.method !== 'initialize') return dripping(response)
    const { accept = '' } = request.headers
    const headers = { accept, 'content-type': 'application/json' }
    const reply = await fetch(agent.url, { method: 'POST', headers, body: JSON.stringify(body) })
    response.writeHead(200, { 'content-type': 'application/json' }).end(await reply.text())
  })
  t.teardown(gate.close)
  const asker = createFeedAsker({ url: gate.url, token: undefined, hosts: {}, timeoutMs: 500 })
  t.teardown(asker.close)
  t.match(await asker.ask('get_signals', {}), { kind: 'trouble' })
})

test('what an agent streams unasked is read no further than a page may be', async (t) => {
  const { out } = await linesPlace(t)
  const agent = await startMcpAgent(wholesaleAgent(rowsOf(1), 'v1').handle)
  t.teardown(agent.close)
  const portion = 'x'.repeat(2 ** 16)
  let [sent, end] = [0, () => {}]
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const gate = await startGate(t, agent.url, (response) => {
    response.on('close', end).writeHead(200, { 'content-type': 'text/event-stream' }).write('data: ')
    const send = (): void => {
      if (sent === 96 * 2 ** 20) return void response.end()
      sent += portion.length
      response.write(portion, (error) => error ?? send())
    }
    send()
  })
  const mirror = await openFeedMirror({ url: gate.url, out })
  t.teardown(mirror.close)
  t.match(await mirror.read(), { kind: 'replaced' })
  await ended
  t.ok(sent < 64 * 2 ** 20, `${sent} bytes`)
})

test('what an agent says of a failure is told in part, and without the key', async (t) => {
  const place = await linesPlace(t)
  const token = 'a-key-of-some-length'
  const refusal = { code: 'INVALID_REQUEST', message: `${token} `.repeat(9_000), recovery: 'correctable' }
  const { mirrorAt } = await start(t, place, () => ({ adcp_error: refusal }))
  const mirror = await mirrorAt({ token })
  const reading = await mirror.read()
  if (reading.kind !== 'failed') return t.fail(reading.kind)
  t.match(reading.message, /^INVALID_REQUEST: /)
  t.notMatch(reading.message, token.slice(0, 5), 'nor where the part ends')
  t.ok(reading.message.length < 2_000, `${reading.message.length} characters`)
})

onEveryCopy('rows of any text are kept, and one that comes twice is kept once', async (t, place) => {
  const odd = {
    signal_agent_segment_id: 'seg_odd',
    name: '\\u0000 "quoted" \\ ünï ☃ 👩‍👩‍👧',
    ext: { deep: [1, 1.5, null, { '': true }] },
  }
  const unstorable = {
    signal_agent_segment_id: 'seg_unstorable',
    name: 'nul \0 and half \ud83d.',
    ext: { 'na\0me': 1 },
  }
  const { feed, mirrorAt } = await start(t, place)
  feed.publish([odd, unstorable, { ...odd, name: 'again' }], 'v3')
  const mirror = await mirrorAt()
  t.match(await mirror.read(), { kind: 'replaced', state: { rows: 2 } })
  const told = (await place.rows()) as (typeof odd)[]
  t.same(told[0], odd)
  const kept = { ...unstorable, name: 'nul \ufffd and half \ufffd.', ext: { 'na\ufffdme': 1 } }
  t.same(told[1], place.format === 'ndjson' && !place.out.startsWith('postgres') ? unstorable : kept)
  t.match(await mirror.read(), { kind: 'unchanged' })
})

test('what an agent says reaches the terminal without what would steer it', async (t) => {
  const steering = '\u001b]52;c;bGll\u0007\u001b[2Jgone\u0085away'
  const feed = wholesaleAgent(rowsOf(1), `v${steering}`)
  const refusal = { code: 'INVALID_REQUEST', message: `no${steering}`, recovery: 'correctable' }
  const refusing = await startMcpAgent(() => ({ adcp_error: refusal }))
  const sound = await startMcpAgent(feed.handle)
  for (const agent of [refusing, sound]) {
    t.teardown(() => agent.close())
    const { out: place } = await linesPlace(t)
    const { out, err } = await runCommand(['mirror', '--url', agent.url, '--out', place, '--once'])
    t.match(out + err, /gone away/)
    for (const line of (out + err).split('\n')) t.equal(forTerminal(line), line)
  }
})

test('a mirror that cannot be opened holds on to nothing', async (t) => {
  const place = await linesPlace(t)
  const { mirrorAt } = await start(t, place)
  await t.rejects(mirrorAt({ egress: { allowNetworks: ['here'] } }), /expected CIDR notation/)
  t.match(await (await mirrorAt()).read(), { kind: 'replaced' })
})

test('what keeps a mirror from its start is told with the option or the place that it is about', async (t) => {
  const { out: place } = await linesPlace(t)
  const run = (...args: string[]) => runCommand(['mirror', '--once', ...args])
  const agent = ['--url', 'http://127.0.0.1:2']
  t.match(await run('--url', 'agent.example', '--out', place), {
    code: 2,
    err: /--url <url>.*http or https url/,
  })
  const listen = ['--listen', 'mirror.example']
  t.match(await run(...agent, '--out', place, ...listen), {
    code: 2,
    err: /--listen <url>.*expected an https url/,
  })
  t.match(await run(...agent, '--out', 'mysql://127.0.0.1:2/copy'), {
    code: 2,
    err: /--out <place>.*expected a folder or postgres/,
  })
  const { code, err } = await run(...agent, '--out', 'postgres://me:secret@127.0.0.1:2/copy')
  t.equal(code, 1)
  t.match(err, /^tributary: postgres:\S+127\.0\.0\.1:2\/copy cannot be opened: .*ECONNREFUSED/)
  t.notMatch(err, /secret/)
  t.match(await run(...agent, '--out', ''), { code: 1, err: /name a folder that this process may make/ })
  if (!existsSync('/proc/self')) return
  // A folder in which nobody can make one.
  t.match(await run(...agent, '--out', '/proc/tributary/copy'), {
    code: 1,
    err: /^tributary: \/proc\/tributary\/copy cannot be opened: ENOENT\b.*name a folder that this process may make/,
  })
})
