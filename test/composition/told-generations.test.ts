/** What a process learns of a generation that another one built, beside its rows. */
import { test } from 'tap'
import type { Account } from '../../src/composition/settings.js'
import { overlayName } from '../../src/feed/query.js'
import { SNAPSHOT_FORM } from '../../src/snapshot/snapshot.js'
import { pageOf } from '../feed/reader.js'
import { agentUrl, buyer } from '../feed/world.js'
import { until } from '../support/upstream-world.js'
import { createGroup, snapshotOf } from './support/process-group.js'

const NOTE = `form/${SNAPSHOT_FORM}/generation`
const ACCOUNT = overlayName(buyer.caller, 'gold')

const accountsWith = (account_id: string): Map<string, Account> => {
  const upstreams = new Map([[agentUrl('north'), { account: { account_id } }]])
  return new Map([[ACCOUNT, { name: ACCOUNT, caller: buyer.caller, upstreams }]])
}

test('an account that whoever builds has otherwise, or not at all, is not told that the rate card is its own', async (t) => {
  const group = createGroup()
  group.build('one')
  const accounts = new Map<string, Account>()
  const one = group.join('one', group.blobs, accounts)
  const two = group.join('two', group.blobs, accountsWith('theirs'))
  const shown = async () => {
    const snapshot = snapshotOf(`with ${accounts.size} accounts`)
    await one.publish(snapshot)
    await until('it is taken up', () => two.feed.current()?.id === snapshot.id)
    const reader = { ...buyer, account: ACCOUNT }
    const { cacheScope: scope, gaps } = pageOf(
      two.feed.wholesale({ maxResults: 1 }, reader, group.time.clock.now()),
    )
    return { scope, gaps: gaps.map(({ kind }) => kind) }
  }
  const unsure = { scope: 'account', gaps: ['other_account'] }
  t.same(await shown(), unsure)
  for (const [name, account] of accountsWith('anothers')) accounts.set(name, account)
  t.same(await shown(), unsure)
  for (const [name, account] of accountsWith('theirs')) accounts.set(name, account)
  t.same(await shown(), { scope: 'public', gaps: [] }, 'it was read, and is answered like everybody')
})

test('however long a generation lasts, whoever joins hears of it', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  group.join('two')
  await one.publish(snapshotOf('one that lasts'))
  await group.minutes(10)
  t.same([...group.kept], [[NOTE, group.time.clock.now()]])
})

test('a generation counts as shown everywhere when the last process has taken it up', async (t) => {
  const group = createGroup()
  group.build('one')
  let reads = async () => {}
  const slow = { ...group.blobs, read: async (name: string) => reads().then(() => group.blobs.read(name)) }
  const one = group.join('one')
  const two = group.join('two', slow)
  const [first, second] = [snapshotOf('first'), snapshotOf('second')]
  await one.publish(first)
  await until('it is taken up', () => two.feed.current()?.id === first.id)
  t.ok(one.generations.isEverywhere())
  const before = one.everywhere()
  let read = () => {}
  reads = () => new Promise((resolve) => (read = resolve))
  await one.publish(second)
  t.notOk(one.generations.isEverywhere(), 'a reader may ask the other one')
  t.equal(one.everywhere(), before)
  reads = async () => {}
  read()
  await until('it is taken up', () => two.feed.current()?.id === second.id)
  t.ok(one.generations.isEverywhere())
  t.equal(one.everywhere(), before + 1)
})
