import { sql } from 'kysely'
import { ledgerEntries, type NewEntry } from '../../src/store/records/ledger.js'
import { onEveryStorage } from './support/storages.js'

const SIGNAL = 'sig_AAAAAAAAAAAAAAAAAAAAAA'
const OFFER = `${SIGNAL}.12345678`
const AGENT = 'https://signals.northwind.example/mcp'

const entry = (id: string, over: Partial<NewEntry> = {}): NewEntry => ({
  id,
  caller: 'acme',
  action: 'activate',
  handle: SIGNAL,
  signalHandle: SIGNAL,
  offerHandle: OFFER,
  upstream: 'northwind',
  agentUrl: AGENT,
  segmentId: 'nw_1',
  destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  ...{ seenAs: 'shared', seq: 1 },
  ...over,
})

onEveryStorage('an entry comes back as it was recorded and settled', async (t, storage) => {
  const { ledger } = await storage.open()
  await ledger.recordAll([
    entry('1', { account: '{"account_id":"a"}', upstreamAccount: { account_id: 'nw' } }),
  ])
  const recorded = { ...entry('1'), account: '{"account_id":"a"}', upstreamAccount: { account_id: 'nw' } }
  const times = { createdAt: storage.clock.now, updatedAt: storage.clock.now }
  t.same(await ledger.get('1'), { ...recorded, outcome: 'pending', ...times })
  storage.clock.now += 5
  const deployments = [{ type: 'platform', platform: 'the-trade-desk', is_live: true }]
  await ledger.settleAll(new Map([['1', { outcome: 'completed', deployments, taskId: 'task-1' }]]))
  t.same(await ledger.get('1'), {
    ...recorded,
    ...times,
    updatedAt: storage.clock.now,
    outcome: 'completed',
    deployments,
    taskId: 'task-1',
  })
})

onEveryStorage(
  'the ledger is read newest first, by any of its columns, page after page',
  async (t, storage) => {
    const { ledger } = await storage.open()
    const ids = Array.from({ length: 30 }, (_, index) => `${(index * 7) % 30}`) // as ids are: in no order
    for (const [index, id] of ids.entries()) {
      const seq = index === 0 ? 0 : 8 + index // 9 before 10: by number, not by its digits
      await ledger.recordAll([entry(id, { seq, caller: index % 2 ? 'acme' : 'other' })])
      if (index % 3 === 0) storage.clock.now += 1 // several share an instant
    }
    const mine = await ledger.query({ caller: 'acme' }, 100)
    t.equal(mine.length, 15)
    t.ok(mine.every((row) => row.caller === 'acme'))
    const walked: string[] = []
    for (
      let page = await ledger.query({}, 7);
      page.length > 0;
      page = await ledger.query({}, 7, page.at(-1))
    ) {
      walked.push(...page.map((row) => row.id))
    }
    t.same(walked, ids.toReversed())
    const all: string[] = []
    for await (const row of ledgerEntries(ledger, { handle: OFFER })) all.push(row.id)
    t.same(all, walked)
    t.equal((await ledger.query({ handle: SIGNAL }, 100)).length, 30)
    t.same(await ledger.query({ handle: `${SIGNAL}.87654321` }, 10), [])
    t.same(await ledger.query({ handle: 'sig_b' }, 10), [])
    t.same(await ledger.query({ since: storage.clock.now }, 10), await ledger.query({}, 2))
    t.same(await ledger.query({ action: 'deactivate' }, 10), [])
  },
)

onEveryStorage('what a process of the release before writes is read for what it is', async (t, storage) => {
  const { ledger, write, db } = await storage.open()
  const said = 'of a caller: {"isCredentialed":true}'
  for (const [id, more] of Object.entries({ with: { isCredentialed: true }, without: {} })) {
    await write(async (records) => {
      await records.jobs.add({
        ...{ id, kind: 'call', lane: 'l', caller: 'acme' },
        data: { ...more, args: { said } },
      })
      await records.ledger.recordAll([entry(id, { segmentId: id })])
    })
  }
  await ledger.recordAll([entry('on', { seq: 1 }), entry('refused', { seq: 2 })])
  await ledger.settleAll(new Map([['on', { outcome: 'completed' }]]))
  await db.updateTable('activations').set({ outcome: 'failed' }).where('id', '=', 'refused').execute()
  await sql`update activations set credentialed = null`.execute(db)
  await ledger.recordAll([entry('else', { seq: 3, destinations: [{ type: 'platform', platform: 'dv360' }] })])
  await ledger.settleAll(new Map([['else', { outcome: 'completed' }]]))
  const idsOf = async (segment: string) =>
    (await ledger.ofSegment(AGENT, segment)).map(({ id, isCredentialed }) => [id, isCredentialed])
  t.same(await idsOf('nw_1'), [
    ['else', undefined],
    ['on', undefined],
  ])
  t.same(await idsOf('with'), [['with', true]])
  t.same(await idsOf('without'), [['without', undefined]])
})
