/** Which process removes the saved rows of upstreams that its configuration does not name. */
import { test } from 'tap'
import { createPassingBlobs, type Sharing } from '../../src/upstreams/rows/storage.js'
import { OTHERS_TURNS } from '../support/others-turns.js'
import { until } from '../support/until.js'
import { configOf, openUpstreams } from '../support/upstream-world.js'

const NAME = 'slice/public/https://new.example/mcp'

/** Work that every process may have is this one's; what only processes with the newest configuration may have, if that is its own. */
function sharingOf(isNewest: boolean, removed: string[]): Sharing {
  const mine = new Set<string>()
  const take = (names: Iterable<string>) => {
    for (const name of names) mine.add(name)
  }
  return {
    ...OTHERS_TURNS,
    want: (_kind, names) => take(names),
    lead: (_kind, names) => isNewest && take(names),
    turn: (name) => (mine.has(name) ? { name, epoch: 1 } : undefined),
    write: async () => true,
    async remove(name) {
      removed.push(name)
    },
  }
}

for (const isNewest of [true, false]) {
  const does = isNewest ? 'removes' : 'does not remove'
  const whose = isNewest ? 'the newest' : 'an older'
  test(`a process with ${whose} configuration ${does} rows that others saved`, async (t) => {
    const blobs = createPassingBlobs()
    await blobs.write(NAME, [new Uint8Array()])
    const removed: string[] = []
    const sharing = sharingOf(isNewest, removed)
    const { upstreams } = await openUpstreams(t, configOf([]), { sharing, blobs })
    await upstreams.start()
    if (isNewest) await until(() => removed.length, Boolean)
    else for (let step = 0; step < 20; step += 1) await new Promise(setImmediate)
    t.same(removed, isNewest ? [NAME] : [])
  })
}
