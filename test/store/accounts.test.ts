import { onEveryStorage } from './support/storages.js'

onEveryStorage('an account is declared, changed and read back, for its caller only', async (t, storage) => {
  const { accounts } = await storage.open()
  const account = {
    caller: 'acme',
    accountId: 'acc_1',
    naturalKey: '{"brand":{"domain":"acme.example"}}',
    settings: { billing: 'operator' },
    status: 'active',
    notificationConfigs: [{ subscriber_id: 'one' }],
  } as const
  await accounts.put(account)
  t.same(await accounts.get('acme', 'acc_1'), account)
  t.equal(await accounts.get('other', 'acc_1'), undefined)
  await accounts.put({ ...account, status: 'closed', notificationConfigs: [] })
  await accounts.put({ ...account, caller: 'other' })
  const { naturalKey: _, ...configured } = account
  storage.clock.now += 1
  await accounts.put({ ...configured, accountId: 'acc_0' })
  t.same(
    (await accounts.list('acme')).map(({ accountId, status }) => [accountId, status]),
    [
      ['acc_1', 'closed'],
      ['acc_0', 'active'],
    ],
  )
})
