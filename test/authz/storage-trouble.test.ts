import pino from 'pino'
import { test } from 'tap'
import type { Blobs } from '../../src/upstreams/rows/storage.js'
import { createWorld, granting, named, WELL_KNOWN } from './world.js'

test('a disk that fails is told with its error, and the file is used all the same', async (t) => {
  const broken: Blobs = {
    read: async () => undefined,
    list: async () => [],
    remove: async () => {},
    write: async () => {
      throw new Error('disk full')
    },
  }
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => lines.push(line) })
  const world = await createWorld({ blobs: broken, log })
  t.teardown(world.close)
  world.web.page(`p.example${WELL_KNOWN}`, { body: granting(['s1']) })
  world.providers().want(named(['p.example']))
  await world.providers().settled()
  t.ok(world.providers().state('p.example')?.document)
  const told = lines.map((line) => JSON.parse(line)).find(({ level }) => level === 40)
  t.equal(told?.err?.message, 'disk full')
})
