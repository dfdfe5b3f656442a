import { test } from 'tap'
import { createInspector } from '../../src/authz/provider/inspector.js'
import { watchThreads } from '../composition/support/threads.js'

const threads = watchThreads()

const KIB = 1024

/** A file that grants one agent everything, as long as the test wants. */
function fileOf(length: number): Uint8Array {
  const text = JSON.stringify({ authorized_agents: [{ url: 'https://agent.example/mcp' }] })
  return Buffer.from(text.padEnd(length))
}

test('a file of up to 128 KiB is read without a thread, and a larger one in a thread', async (t) => {
  const inspector = createInspector()
  t.teardown(inspector.close)
  const small = await inspector.examine(fileOf(128 * KIB))
  t.equal(threads.started('inspector'), 0)
  const large = await inspector.examine(fileOf(128 * KIB + 1))
  t.equal(threads.started('inspector'), 1)
  t.equal(small.inspection.kind, 'document')
  t.equal(large.inspection.kind, 'document')
})
