/**
 * What needs comply_test_controller, against a Tributary that offers it: the storyboard of the SDK, and the parts of later
 * releases that npm does not carry yet, as checks of our own. Elsewhere it is not offered: 3.0 knows one of its scenarios.
 */
import { ok } from 'node:assert/strict'
import { createServer } from 'node:http'
import { runLifecycle } from './lifecycles/run.js'
import { TEST_CONTROLLER } from './lifecycles/test-controller.js'
import { KEYS, startTributary } from './server.js'
import { runStoryboards } from './storyboards.js'

const STORYBOARD = 'deterministic_testing'
const NOTICES_MS = 30_000

/** A receiver of notices on loopback. */
async function openReceiver() {
  const notices = []
  const server = createServer((request, reply) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      notices.push(JSON.parse(body))
      reply.end('ok')
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  async function notice(taskId) {
    const end = Date.now() + NOTICES_MS
    for (;;) {
      const found = notices.find(({ task_id: id }) => id === taskId)
      if (found) return found
      ok(Date.now() < end, 'a notice came')
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  return { url: `http://127.0.0.1:${server.address().port}/notices`, notice, close: () => server.close() }
}

export async function runTestController(transports) {
  const receiver = await openReceiver()
  const tributary = await startTributary({
    sandbox: true,
    test_controller: true,
    egress: { webhook_networks: ['127.0.0.0/8'] },
  })
  const rows = []
  try {
    for (const transport of transports) {
      const key = KEYS[transport]
      rows.push(...(await runStoryboards(tributary.url, transport, key, { only: STORYBOARD })))
      const keys = { own: key, other: KEYS.other }
      for (const lifecycle of TEST_CONTROLLER) {
        rows.push(await runLifecycle(lifecycle, tributary.url, transport, keys, { receiver }))
      }
    }
  } finally {
    await tributary.close()
    receiver.close()
  }
  return rows
}
