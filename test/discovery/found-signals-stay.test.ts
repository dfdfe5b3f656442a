import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import type { SignalRef } from '../../src/adcp/signal.js'
import type { BriefsOptions } from '../../src/briefs/briefs.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { buyer, openWorld, readAnswer, type World } from './support/world.js'

const time_budget = { interval: 60, unit: 'seconds' } as const // however busy the machine

test('a signal that only a question found is looked up and activated after a restart, as trust and scope allow', async (t) => {
  const sandbox = await startSandbox({ signals: 150 })
  t.teardown(() => sandbox.close())
  const folder = await temporaryFolder(t)
  let access: BriefsOptions['access'] = () => ({ scope: 'public' })
  let isRevoked = false
  const revoked = () => ({
    ...{ stamp: 'revoked', policy: 'strict', definition: () => undefined },
    decide: () => ({ outcome: 'unauthorized', reason: 'not_listed' }) as never,
  })
  const open = async () => {
    const world: World = await openWorld(sandbox.hosts, sandbox.registryUrl, folder, {
      access: (...asked) => access(...asked),
      judge: () => (isRevoked ? (revoked as never) : world.judge()),
    })
    await world.publish(({ agentUrl }) => agentUrl.includes('northwind')) // the others are only asked
    return world
  }

  const before = await open()
  const answer = readAnswer(await before.ask({ signal_spec: 'electric vehicle intenders', time_budget }))
  const found = answer.signals.find((row) => !before.feed.resolve(row.signal_agent_segment_id))
  if (!found) throw new Error('every signal of the answer is mirrored')
  const { signal_agent_segment_id: handle, signal_ref } = found
  const lookup = { signal_refs: [signal_ref as SignalRef] }
  const known = await before.discovery.resolve(handle, buyer)
  t.ok(known?.offers.length)
  t.match(readAnswer({ ...(await before.discovery.lookup(lookup, buyer)) } as never).signals, [
    { signal_agent_segment_id: handle, name: found.name },
  ])
  await before.close()

  const after = await open()
  t.same(await after.discovery.resolve(handle, buyer), known, 'the handle leads where it led')
  t.match(readAnswer({ ...(await after.discovery.lookup(lookup, buyer)) } as never).signals, [
    { signal_agent_segment_id: handle, name: found.name },
  ])
  const elsewhere = `sig_${'A'.repeat(22)}`
  t.equal(await after.discovery.resolve(elsewhere, buyer), undefined)

  access = ({ account }) => ({ scope: account ?? 'public' })
  const acme = { ...buyer, account: 'acme' }
  t.same(await after.discovery.resolve(handle, acme), known, 'found without, activated with an account')
  t.match(await after.discovery.lookup(lookup, acme), { count: 0 }, 'its rows are its own')

  access = (_reader, upstream) => ({ scope: `account at ${upstream}` })
  t.equal(await after.discovery.resolve(handle, buyer), undefined, 'an account has its own scope')
  t.match(await after.discovery.lookup(lookup, buyer), { count: 0 })

  access = () => ({ scope: 'public' })
  isRevoked = true
  t.equal(await after.discovery.resolve(handle, buyer), undefined, 'what may not be sold is not found')
  t.match(await after.discovery.lookup(lookup, buyer), { count: 0 })
  await after.close()
})
