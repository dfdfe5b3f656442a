/** The build serves the demo world once, from the whole program: a second of the processor, for one process that ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.js'
import { ROOT } from './support/graph.js'

test('a server whose build is killed ends with it', async (t) => {
  const serve = [join(ROOT, 'keep.js'), 'serve', '--port', '0', '--sandbox-signals', '24']
  const server = spawn(process.execPath, serve, { cwd: await temporaryFolder(t), env: {} })
  t.teardown(() => server.kill('SIGKILL'))
  const ended = once(server, 'exit')
  server.stderr.resume()
  await once(server.stdout, 'data')
  server.stdin.destroy() // as the system does it for whoever was killed
  t.same(await ended, [0, null])
})
