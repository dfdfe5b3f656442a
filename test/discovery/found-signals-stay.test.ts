import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import type { SignalRef } from '../../src/adcp/signal.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { buyer, openWorld, readAnswer } from './support/world.js'

const time_budget = { interval: 60, unit: 'seconds' } as const // however busy the machine

test('a signal that only a question found is looked up and activated after a restart, as trust and scope allow', async (t) => {
  const sandbox = await startSandbox({ signals: 300 })
  t.teardown(() => sandbox.close())
  const folder = await temporaryFolder(t)
  const open = async (more: Parameters<typeof openWorld>[3] = {}) => {
    const world = await openWorld(sandbox.hosts, sandbox.registryUrl, folder, more)
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
  await after.close()

  const withAccounts = await open({
    access: ({ account }) => ({ scope: account ?? 'public' }),
  })
  const acme = { ...buyer, account: 'acme' }
  t.same(
    await withAccounts.discovery.resolve(handle, acme),
    known,
    'found without, activated with an account',
  )
  t.match(await withAccounts.discovery.lookup(lookup, acme), { count: 0 }, 'its rows are its own')
  await withAccounts.close()

  const others = await open({ access: (_reader, upstream) => ({ scope: `account at ${upstream}` }) })
  t.equal(await others.discovery.resolve(handle, buyer), undefined, 'an account has its own scope')
  t.match(await others.discovery.lookup(lookup, buyer), { count: 0 })
  await others.close()

  const revoked = await open({
    judge: () => () => ({
      stamp: 'revoked',
      policy: 'strict',
      decide: () => ({ outcome: 'unauthorized', reason: 'not_listed' }) as never,
      definition: () => undefined,
    }),
  })
  t.equal(await revoked.discovery.resolve(handle, buyer), undefined, 'what may not be sold is not found')
  t.match(await revoked.discovery.lookup(lookup, buyer), { count: 0 })
  await revoked.close()
})
