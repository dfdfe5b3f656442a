import Fastify from 'fastify'
import { test } from 'tap'
import { createBodies } from '../../src/server/answer/bodies.js'
import { createFastLane, sendChunks } from '../../src/server/answer/exchange.js'
import { createAdmission } from '../../src/server/door/admission.js'
import { createDoor } from '../../src/server/door/door.js'
import { createOverload } from '../../src/server/door/overload.js'
import { noWayOut } from '../support/no-way-out.js'

test('too many slow calls are 503 with Retry-After, until one of them ends', async (t) => {
  const overload = createOverload({ maxPending: 2 })
  t.teardown(overload.close)
  const callers = createAdmission({
    callers: { anonymous: 'metadata', keys: [] },
    ...{ send: noWayOut, now: Date.now },
  })
  const door = createDoor({
    callers,
    overload,
    publicUrl: 'http://localhost',
    addressOf: () => '',
    isMutating: () => false,
  })
  const app = Fastify()
  t.teardown(() => app.close())
  const lane = createFastLane({
    ...{ isOpen: false, idOf: () => 'one', timeouts: app.server, bodies: createBodies(() => '') },
    refuse: (_exchange, { message }) => t.fail(message),
    onBug: (error) => t.fail(String(error)),
  })
  lane.post(app, '/', (exchange) => door.letIn(exchange, () => sendChunks(exchange, 200, [], ['ok'])))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const ask = () => fetch(url, { method: 'POST' })
  let end = () => {}
  const slow = new Promise<void>((resolve) => {
    end = resolve
  })
  const first = overload.track(slow)
  t.equal((await ask()).status, 200)
  await t.rejects(overload.track(Promise.reject(new Error('failed'))))
  t.equal((await ask()).status, 200, 'a call that failed is no longer pending')
  const third = overload.track(slow)
  const busy = await ask()
  t.equal(busy.status, 503)
  t.equal(busy.headers.get('retry-after'), '2')
  const body = (await busy.json()) as { error: { data: { adcp_error: { code: string } } } }
  t.equal(body.error.data.adcp_error.code, 'SERVICE_UNAVAILABLE')
  end()
  await Promise.all([first, third])
  t.equal((await ask()).status, 200)
})

test('an event loop that is late all the time is overload; one long pause is not', async (t) => {
  const overload = createOverload()
  t.teardown(overload.close)
  const never = new Int32Array(new SharedArrayBuffer(4))
  const block = (ms: number) => Atomics.wait(never, 0, 0, ms) // the loop stands, and others have the processor
  const turn = () => new Promise((resolve) => setTimeout(resolve, 1))
  await turn()
  block(400)
  t.equal(overload.isOverloaded(), false)
  for (let n = 0; n < 200 && !overload.isOverloaded(); n++) {
    block(300)
    await turn()
  }
  t.equal(overload.isOverloaded(), true)
})
