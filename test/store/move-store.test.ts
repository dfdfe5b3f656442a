import { test } from 'tap'
import { STATE_TABLES } from '../../src/store/database/database.js'
import { moveStore, type Store } from '../../src/store/store.js'
import { bare, embedded, NO_POSTGRES, onEveryBareStorage } from './support/storages.js'

async function fill(store: Store) {
  for (let index = 0; index < 450; index += 1) {
    await store.idempotency.bind({ caller: 'acme', key: `key-${index}`, task: 't', fingerprint: 'f' })
  }
  const job = { kind: 'call', lane: 'https://signals.northwind.example/mcp', caller: 'acme', key: 'key-1' }
  const data = { args: { note: 'ünïcode "quoted"' }, rows: [1, 2] }
  const added = await store.jobs.add({ ...job, id: 'call-1', data }, { owner: 'one', ms: 60_000 })
  if (added.isHeld) await store.jobs.end(added.job, 'answered', { deployments: [] })
  await store.jobs.add({ ...job, id: 'call-2', data })
  await store.ledger.recordAll([
    {
      id: 'call-1',
      caller: 'acme',
      action: 'activate',
      handle: 'sig_a',
      signalHandle: 'sig_a',
      offerHandle: 'sig_a.12345678',
      upstream: 'northwind',
      agentUrl: 'https://signals.northwind.example/mcp',
      segmentId: 'nw_1',
      ...{ destinations: [], seenAs: 'shared', seq: 1 },
    },
  ])
  await store.tasks.create({
    id: 'task-1',
    caller: 'acme',
    type: 'activate_signal',
    status: 'submitted',
    request: {},
  })
  await store.accounts.put({
    caller: 'acme',
    accountId: 'acc_1',
    settings: {},
    status: 'active',
    notificationConfigs: [],
  })
  await store.subscriptions.add({
    ...{ caller: 'acme', accountId: 'acc_1', subscriberId: 'mirror', job: 'call-1' },
    config: { url: 'https://acme.example/' },
  })
  const row = { agentUrl: 'https://n.example/mcp', scope: 'public', listing: '{}' }
  await store.found.put(
    Array.from({ length: 250 }, (_, index) => ({ ...row, handle: `sig_${index}`, segment: `nw_${index}` })),
  )
  await store.audit.note({ who: 'op', action: 'suspend-caller', subject: 'acme', outcome: 'done' })
  await store.signalChanges.note([{ handle: 'sig_a', at: 1, kind: 'priced', told: { fields: [] } }])
  await store.blobs.write('slice/a', [new TextEncoder().encode('rows')])
}

onEveryBareStorage('what is asked for after a move comes after all that was moved', async (t, storage) => {
  const from = await (await embedded(t)).open()
  const call = { kind: 'call', lane: 'l', caller: 'acme', data: {} }
  for (const id of ['a', 'b', 'c']) {
    const { job } = await from.jobs.add({ id, ...call })
    await from.ledger.recordAll([
      {
        ...{
          id,
          caller: 'acme',
          action: 'activate',
          handle: 'sig_a',
          signalHandle: 'sig_a',
          offerHandle: 'sig_a.1',
        },
        ...{
          upstream: 'n',
          agentUrl: 'https://n.example/mcp',
          segmentId: 's',
          destinations: [],
          seenAs: 'shared',
        },
        seq: job.seq,
      },
    ])
  }
  await from.db.deleteFrom('jobs').execute() // calls are forgotten sooner than the ledger
  const to = await storage.open()
  await moveStore(from, to)
  const [newest] = await to.ledger.query({}, 1)
  const { job } = await to.jobs.add({ id: 'd', ...call })
  t.ok(job.seq > (newest?.seq ?? Number.POSITIVE_INFINITY), `${job.seq} comes after ${newest?.seq}`)
})

test('the state of an embedded storage moves to PostgreSQL row by row', { skip: NO_POSTGRES }, async (t) => {
  const from = await (await embedded(t)).open()
  const target = await bare(t)
  if (!target) return
  const to = await target.open()
  await fill(from)
  t.same(await moveStore(from, to), {
    idempotency: 450,
    jobs: 2,
    activations: 1,
    tasks: 1,
    accounts: 1,
    subscriptions: 1,
    found_rows: 250,
    audit: 1,
    signal_changes: 1,
    blobs: 1,
  })
  for (const table of Object.keys(STATE_TABLES) as (keyof typeof STATE_TABLES)[]) {
    const rows = (store: Store) => store.db.selectFrom(table).selectAll().execute()
    const sorted = async (store: Store) =>
      (await rows(store)).map((row) => JSON.stringify(Object.entries(row).sort())).sort()
    t.same(await sorted(to), await sorted(from), table)
  }
  const next = await to.jobs.add({ id: 'call-3', kind: 'call', lane: '', caller: 'acme', data: {} })
  t.ok(next.job.seq > 2, 'PostgreSQL numbers on from there')
  await to.db.deleteFrom('jobs').where('id', '=', 'call-3').execute()
  const back = await (await embedded(t)).open()
  t.same(await moveStore(to, back), await moveStore(from, await (await embedded(t)).open()), 'and back again')
  t.same(await back.ledger.query({}, 10), await from.ledger.query({}, 10))
  t.same(Buffer.concat((await to.blobs.read('slice/a')) ?? []).toString(), 'rows')
  await t.rejects(moveStore(from, to), /already holds state/)
})
