import { endedAmong } from '../../src/activation/holders.js'
import type { NewEntry, Settlement } from '../../src/store/records/ledger.js'
import { createForgetting, DEFAULT_RETENTION } from '../../src/store/retention.js'
import { onEveryStorage } from './support/storages.js'

const DAY = 24 * 60 * 60 * 1_000
const STANDING = 450 // more than one step looks at

const entry = (id: string, over: Partial<NewEntry> = {}): NewEntry => ({
  ...{ id, caller: 'acme', action: 'activate', handle: 'sig', signalHandle: 'sig', offerHandle: `sig.${id}` },
  ...{ upstream: 'northwind', agentUrl: 'https://a.example/mcp', segmentId: id },
  destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  ...{ seenAs: 'shared', seq: 1, ...over },
})

onEveryStorage(
  'the ledger keeps everything unless told otherwise, and what is on always',
  async (t, storage) => {
    const { ledger, ...store } = await storage.open()
    const record = async (
      id: string,
      outcome: Settlement['outcome'] | undefined,
      over: Partial<NewEntry> = {},
    ) => {
      storage.clock.now += 1
      await ledger.recordAll([entry(id, over)])
      if (outcome) await ledger.settleAll(new Map([[id, { outcome }]]))
    }
    const standing = Array.from({ length: STANDING }, (_, index) => `on-${index}`)
    await ledger.recordAll(standing.map((id) => entry(id)))
    await ledger.settleAll(new Map(standing.map((id) => [id, { outcome: 'completed' }])))
    await record('open', undefined)
    await record('submitted', 'submitted')
    await record('failed', 'failed')
    const of = { offerHandle: 'sig.off', segmentId: 'off' }
    await record('was on', 'completed', of)
    await record('off', 'completed', { ...of, seq: 2, action: 'deactivate' })
    await record('other account', 'completed', { ...of, account: '{"account_id":"a"}' })
    const left = async () => {
      const ids = await Promise.all(
        ['open', 'submitted', 'failed', 'was on', 'off', 'other account'].map((id) => ledger.get(id)),
      )
      return ids.flatMap((one) => (one ? [one.id] : []))
    }
    const all = await left()
    storage.clock.now += 400 * DAY
    await createForgetting({ ...store, ledger }, DEFAULT_RETENTION, endedAmong)(storage.clock.now)
    t.same(await left(), all, 'by default nothing goes')
    const forget = createForgetting(
      { ...store, ledger },
      { ...DEFAULT_RETENTION, ledgerMs: 500 * DAY },
      endedAmong,
    )
    await forget(storage.clock.now)
    t.same(await left(), all, 'nor before its time')
    storage.clock.now += 100 * DAY + 1
    await forget(storage.clock.now)
    t.same(await left(), ['open', 'submitted', 'other account'])
    t.equal((await ledger.query({ outcome: 'completed' }, 1_000)).length, STANDING + 1, 'what is on stays')
  },
)

onEveryStorage('calls, tasks and answers are kept as long as they are set to', async (t, storage) => {
  const { ledger, ...store } = await storage.open({ answersMs: DAY / 2 })
  const { jobs, tasks, idempotency } = store
  const key = { caller: 'acme', key: 'k', task: 'activate_signal', fingerprint: 'f' }
  await idempotency.bind(key)
  await idempotency.answer('acme', 'k', 1)
  const added = await jobs.add(
    { id: 'a', kind: 'call', lane: 'l', caller: 'acme', data: {} },
    { owner: 'o', ms: 1 },
  )
  if (added.isHeld) await jobs.end(added.job, 'answered', {})
  await tasks.create({ id: 't', caller: 'acme', type: 'get_signals', status: 'submitted', request: {} })
  await tasks.progress('t', { status: 'completed', result: {} })
  const forget = createForgetting(
    { ...store, ledger },
    { answersMs: DAY / 2, callsMs: DAY, tasksMs: 2 * DAY },
    endedAmong,
  )
  const left = async (after: number) => {
    storage.clock.now += after
    await forget(storage.clock.now)
    const found = [await idempotency.find(key), await jobs.get('a'), await tasks.get('acme', 't')]
    return found.map((one) => one !== undefined)
  }
  t.same(await left(DAY / 2 - 1), [true, true, true])
  t.same(await left(1), [false, true, true])
  t.same(await left(DAY / 2), [false, false, true])
  t.same(await left(DAY), [false, false, false])
})
