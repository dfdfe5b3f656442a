/** What strangers on the port of a mirror hold, and that none of it keeps the agent from telling. */
import { randomBytes, randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { until } from '../support/until.js'
import { row } from '../support/upstream-world.js'
import { linesPlace } from './support/copies.js'
import { FAR_KEY, startTelling } from './support/telling.js'

const ANNOUNCED = 990_000
const CAME = 900_000
const BOUND = 16 * 1024 * 1024
const MOST_CONNECTIONS = 256

async function start(t: Test) {
  const telling = await startTelling(t, [row(1), row(2)])
  const way = await telling.way()
  const place = await linesPlace(t)
  const follow = async () => {
    const mirror = await telling.mirrorAt(place, way)
    void mirror.follow()
    await until(telling.subscribed, (count) => count === 1)
    return mirror
  }
  const mirror = await follow()
  const [url = ''] = await telling.urls()
  const { accounts } = await telling.over.call('list_accounts', {})
  const { account_id, notification_configs } = accounts[0]
  const { pathname } = new URL(url)
  const origin = `http://127.0.0.1:${mirror.port}`

  /** What the agent's event is answered with; it comes from the address of all others. */
  async function tell(): Promise<number> {
    const text = JSON.stringify({
      idempotency_key: `whk_${randomUUID()}`,
      notification_type: 'signal.removed',
      event: { event_type: 'signal.removed', payload: { signal_agent_segment_id: 'any' } },
      ...{ subscriber_id: notification_configs[0].subscriber_id, account_id, cache_scope: 'public' },
    })
    const signed = createSigner(FAR_KEY, WEBHOOKS)(
      url,
      text,
      Date.now(),
      randomBytes(16).toString('base64url'),
    )
    const headers = { 'content-type': 'application/json', ...signed }
    return (await fetch(`${origin}${pathname}`, { method: 'POST', body: text, headers })).status
  }

  /** A connection of a stranger, who says this and keeps it. */
  function hold(text: string) {
    const socket = connect(mirror.port as number, '127.0.0.1')
    const held = { said: '', isOpen: true, socket }
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      held.said += chunk.toString()
    })
    socket.on('close', () => {
      held.isOpen = false
    })
    t.teardown(() => socket.destroy())
    socket.write(text)
    return held
  }

  const head = (path: string, more = '') =>
    `POST ${path} HTTP/1.1\r\nHost: mirror\r\nContent-Type: application/json\r\nContent-Length: ${ANNOUNCED}\r\n${more}\r\n`
  return { way, mirror, follow, url, pathname, origin, tell, hold, head }
}

const sent = (socket: Socket) => socket.bytesWritten - socket.writableLength

test('who does not know the whole url is told so at once, and takes nothing from the agent', async (t) => {
  const { way, url, origin, pathname, tell, hold, head, mirror, follow } = await start(t)
  t.match(url, new RegExp(`^${way.url}/[\\w-]{32}$`))
  const post = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }
  const paths = ['', '/told', '/told/', `${pathname}/`, `${pathname}x`, pathname.slice(0, -1)]
  for (let round = 0; round < 12; round += 1) {
    const replies = await Promise.all(paths.map((path) => fetch(`${origin}${path}`, post)))
    t.same(new Set(replies.map(({ status }) => status)), new Set([404]))
  }
  const waiting = [hold(head('/told')), hold(head(pathname))]
  await until(
    () => waiting.map(({ said }) => said.slice(9, 12)),
    ([stranger, unsigned]) => stranger === '404' && unsigned === '401',
  )
  await until(
    () => waiting[0]?.isOpen,
    (isOpen) => isOpen === false,
  )
  t.equal(await tell(), 200)
  t.equal(
    (await fetch(`${origin}/elsewhere/${url.split('/').at(-1)}`, post)).status,
    401,
    'proxies change paths',
  )

  await mirror.close()
  const { port } = await follow()
  const again = await fetch(`http://127.0.0.1:${port}${pathname}`, post)
  t.equal(again.status, 401, 'it is the same after a restart')
})

test('connections and bodies that do not end are bounded in sum, and the agent gets through', async (t) => {
  const { pathname, tell, hold, head } = await start(t)
  const some = ' '.repeat(CAME)
  const bodies = Array.from({ length: 60 }, () =>
    hold(head(pathname, 'Signature: sig1=:AAAA:\r\nSignature-Input: sig1=()\r\n') + some),
  )
  const refused = () => bodies.filter(({ said }) => said.startsWith('HTTP/1.1 413'))
  const isOver = () => (bodies.length - refused().length) * CAME <= BOUND
  await until(isOver, (is) => is)
  await until(
    () => bodies.every(({ socket }) => sent(socket) > CAME),
    (is) => is,
  )
  t.ok(refused().length < bodies.length, 'and what there is room for waits')
  t.equal(await tell(), 200)

  const idle = Array.from({ length: 2 * MOST_CONNECTIONS }, () => hold('POST '))
  const open = () => [...bodies, ...idle].filter(({ isOpen }) => isOpen).length
  await until(open, (count) => count <= MOST_CONNECTIONS)
  t.equal(await tell(), 200)
  t.ok(idle.at(-1)?.isOpen, 'who was silent longest goes first')
})
