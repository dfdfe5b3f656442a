/** A provider that another process looks at: who waits for it does so no longer than there is something to wait for. */
import { type Test, test } from 'tap'
import type { Sharing } from '../../src/upstreams/rows/storage.js'
import { until } from '../support/until.js'
import { createWorld, granting, named, WELL_KNOWN } from './world.js'

async function startFollower(t: Test) {
  let isReader = false
  let turned = () => {}
  let looked = (_domain: string) => {}
  const sharing = {
    want() {},
    turn: (name: string) => (isReader ? { name, epoch: 1 } : undefined),
    onTurns(listener: () => void) {
      turned = listener
    },
    hear(prefix: string, listener: (name: string) => void) {
      looked = (domain) => listener(`${prefix}${domain}`)
    },
    ...{ tell: async () => true, write: async () => true, pass: async () => {} },
  } as unknown as Sharing
  const world = await createWorld({ sharing })
  t.teardown(world.close)
  world.web.page(`p.example${WELL_KNOWN}`, { body: granting(['s1']) })
  const providers = world.providers()
  providers.want(named(['p.example']))
  let isSettled = false
  const settled = providers.settled().then(() => {
    isSettled = true
  })
  let isLoaded = false // what an earlier run saved of it, which is nothing
  void providers.readOnce().then(() => {
    isLoaded = true
  })
  const waitsNoLonger = () => {
    world.jump(10_000)
    world.runDue()
    return isLoaded
  }
  await until(waitsNoLonger, Boolean)
  t.notOk(isSettled)
  return {
    ...{ providers, settled: () => until(() => isSettled, Boolean).then(() => settled) },
    looked: () => looked('p.example'),
    takeOver() {
      isReader = true
      turned()
    },
  }
}

test('it is settled when the other has looked, whatever was found', async (t) => {
  const { settled, looked } = await startFollower(t)
  looked()
  await settled()
})

test('it is looked at here when this process becomes responsible', async (t) => {
  const { providers, settled, takeOver } = await startFollower(t)
  takeOver()
  await settled()
  t.ok(providers.state('p.example')?.document)
})

test('nobody waits for one that no upstream names any more', async (t) => {
  const { providers, settled } = await startFollower(t)
  providers.want(new Map())
  await settled()
})

test('nor when this process ends', async (t) => {
  const { providers, settled } = await startFollower(t)
  await providers.close()
  await settled()
})
