import { test } from 'tap'
import { createStack } from '../../src/composition/foundation.js'

test('parts are stopped in the opposite order of their start, one after the other', async (t) => {
  const stack = createStack()
  const order: string[] = []
  for (const name of ['storage', 'feed', 'server']) {
    const close = async () => {
      order.push(`${name} stops`)
      await Promise.resolve()
      order.push(`${name} stopped`)
    }
    t.ok(stack.add({ name, close }).name === name, 'the part is given back')
  }
  await stack.close()
  t.same(order, [
    ...['server stops', 'server stopped', 'feed stops', 'feed stopped'],
    ...['storage stops', 'storage stopped'],
  ])
  await stack.close()
  t.equal(order.length, 6, 'each once')
})

test('a part that cannot be stopped keeps no other from being stopped', async (t) => {
  const stack = createStack()
  const stopped: string[] = []
  const part = (name: string, problem?: string) => ({
    async close() {
      if (problem) throw new Error(problem)
      stopped.push(name)
    },
  })
  stack.add(part('storage'))
  stack.add(part('feed', 'the feed hangs'))
  stack.add(part('threads', 'a thread is gone'))
  stack.add(part('server'))
  await t.rejects(stack.close(), { message: 'a thread is gone' })
  t.same(stopped, ['server', 'storage'])
})
