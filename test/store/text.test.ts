import { onEveryStorage } from './support/storages.js'

const ODD = 'a\u0000b\ud800c'
const KEPT = 'a\ufffdb\ufffdc'

onEveryStorage(
  'text that a database does not take is kept without what it does not take',
  async (t, storage) => {
    const { jobs, idempotency, accounts, found } = await storage.open()
    const request = { caller: ODD, key: ODD, task: 't', fingerprint: 'f' } // hashes are ours
    t.match(await idempotency.bind(request), { kind: 'fresh' })
    t.match(await idempotency.find(request), { kind: 'open' }, 'it is found by what it was')
    await idempotency.answer(ODD, ODD, { said: ODD })
    t.match(
      await idempotency.find(request),
      { kind: 'answered', answer: { said: ODD } },
      'JSON can say all of it',
    )

    const job = {
      id: 'a',
      kind: 'call',
      lane: ODD,
      target: ODD,
      side: 'on',
      caller: ODD,
      key: ODD,
      data: { text: ODD },
    }
    await jobs.add(job)
    t.match(await jobs.get('a'), { lane: KEPT, target: KEPT, caller: KEPT, data: { text: ODD } })
    const held = await jobs.claim('a', { owner: ODD, ms: 1_000 })
    t.equal(held && (await jobs.end(held, 'answered', { text: ODD })), true)
    t.match(await jobs.get('a'), { state: 'answered', answer: { text: ODD } })

    const settings = { brand: { domain: ODD } }
    await accounts.put({ caller: ODD, accountId: ODD, settings, status: 'active', notificationConfigs: [] })
    t.match(await accounts.get(ODD, ODD), { accountId: KEPT, settings })
    await found.put([{ handle: ODD, agentUrl: ODD, scope: ODD, segment: ODD, listing: '{}' }])
    t.match(await found.read([ODD]), [{ segment: KEPT }])
  },
)
