/** A provider that nobody names any more, and that somebody names again: what was last read of it counts on. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import { openBlobFiles } from '../../src/store/blob-files.js'
import type { Blobs } from '../../src/upstreams/rows/storage.js'
import { until } from '../support/until.js'
import { AGENT, createWorld, granting, named, WELL_KNOWN } from './world.js'

const PAGE = `p.example${WELL_KNOWN}`
const RECORD = 'provider/p.example'

/** The disk, of which a test decides when it takes what is written. */
async function slowDisk(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-wanted-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const disk = await openBlobFiles({ folder, onDamage: (name) => t.fail(name) })
  let taken: Promise<void> | undefined
  let reads = 0
  const blobs: Blobs = {
    ...disk,
    read(name) {
      if (name === RECORD) reads += 1
      return disk.read(name)
    },
    async write(name, parts) {
      await taken
      await disk.write(name, parts)
    },
  }
  return {
    ...{ blobs, disk, reads: () => reads },
    /** Writes wait until it is called, or fail then. */
    hold(): (fault?: Error) => void {
      let end = (_fault?: Error) => {}
      taken = new Promise((resolve, reject) => {
        end = (fault) => {
          if (fault) return reject(fault)
          taken = undefined
          resolve()
        }
      })
      taken.catch(() => {})
      return end
    },
  }
}

/** A provider whose file granted s1, which is saved, and grants nothing now, which is in force but not saved. */
async function revoked(t: Test) {
  const { blobs, disk, hold, reads } = await slowDisk(t)
  const world = await createWorld({ blobs })
  t.teardown(world.close)
  const providers = world.providers()
  const outcome = () => {
    const state = providers.state('p.example') ?? { domain: 'p.example' }
    const verdict = decide(compileProvider(state), 's1', AGENT, world.clock.now())
    return 'reason' in verdict ? verdict.reason : verdict.outcome
  }
  world.web.page(PAGE, { body: granting(['s1']) })
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(outcome(), 'authorized')
  const end = hold()
  t.teardown(() => end())
  world.web.page(PAGE, { body: granting([]) })
  const refreshed = providers.refresh('p.example')
  await until(outcome, (reason) => reason === 'agent_not_listed')
  const saved = async () => Buffer.concat((await disk.read(RECORD)) ?? []).toString()
  return { world, providers, outcome, end, refreshed, saved, reads }
}

test('a revocation that is yet to be saved stands when its provider is named again', async (t) => {
  const { world, providers, outcome, end, refreshed, saved } = await revoked(t)
  const old = await saved()
  const told: string[] = []
  providers.onChange((before, { document }) => {
    told.push(`${before.document?.digest ?? 'nothing'} ${document?.digest}`)
  })
  providers.want(new Map())
  t.equal(providers.state('p.example'), undefined)
  t.same(providers.states(), [])
  t.ok(providers.isSettled())
  t.equal(await providers.refresh('p.example'), undefined, 'nobody wants it')
  providers.want(named(['p.example']))
  const { document } = await until(
    () => providers.state('p.example') ?? { document: undefined },
    (state) => state.document !== undefined,
  )
  t.equal(outcome(), 'agent_not_listed')
  t.same(told, [`nothing ${document?.digest}`], 'who listens hears what is known of it')
  t.equal(await saved(), old, 'the storage still has the earlier file')
  end()
  await refreshed
  await providers.settled()
  t.equal(outcome(), 'agent_not_listed')
  t.not(await saved(), old)
  t.equal(world.web.asked(PAGE), 2)
})

test('so it does when it could not be saved', async (t) => {
  const { providers, outcome, end, refreshed, saved } = await revoked(t)
  const old = await saved()
  end(new Error('disk full'))
  await refreshed
  providers.want(new Map())
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(await saved(), old)
  t.equal(outcome(), 'agent_not_listed')
})

test('one that nobody names is dropped when it is saved, and then comes from the storage', async (t) => {
  const { providers, outcome, end, refreshed, reads } = await revoked(t)
  const before = reads()
  providers.want(new Map())
  end()
  await refreshed
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(reads(), before + 1)
  t.equal(outcome(), 'agent_not_listed')
})

test('what was read of one that nobody names any more is saved before the process ends', async (t) => {
  const { providers, end, saved } = await revoked(t)
  const old = await saved()
  providers.want(new Map())
  const closed = providers.close()
  end()
  await closed
  t.not(await saved(), old)
})
