import { test } from 'tap'
import { buyer, other, soon } from './support/parts.js'
import { asks, first, key, startWorld } from './support/world.js'

test("two callers of one handle see neither the other's ledger, tasks, keys nor accounts", async (t) => {
  const world = await startWorld(t, { agents: ['meridian'] })
  const { activation, store } = world
  const choice = first(world.choices('meridian'))
  const answer = await world.activate(asks(choice))
  if (answer.kind !== 'answer') throw new Error('not activated')
  const taskId = answer.fields.task_id as string
  const never = await activation.taskStatus({ task_id: 'task_never' }, other, soon())
  t.same(await activation.taskStatus({ task_id: taskId }, other, soon()), never, 'as if it never was')
  t.match(never, { error: { code: 'REFERENCE_NOT_FOUND', field: 'task_id' } })
  t.match(await activation.listTasks({}, other), {
    fields: { tasks: [], query_summary: { total_matching: 0 } },
  })
  t.match(await activation.listTasks({ filters: { task_ids: [taskId] } }, other), { fields: { tasks: [] } })
  t.match(await activation.listTasks({}, buyer), { fields: { tasks: [{ task_id: taskId }] } })
  t.same(await store.ledger.query({ caller: other.id }, 10), [])

  const brand = { domain: 'acme.example' }
  const declared = { brand, operator: 'acme.example', billing: 'operator' }
  const synced = await activation.syncAccounts(
    { idempotency_key: 'key-of-the-sync-0001', accounts: [declared] },
    buyer,
  )
  if (synced.kind !== 'answer') throw new Error('not synced')
  const [{ account_id: accountId } = {}] = synced.fields.accounts as { account_id?: string }[]
  t.match(await activation.listAccounts({}, other), { fields: { accounts: [] } })
  t.match(await activation.listAccounts({ account: { account_id: String(accountId) } }, other), {
    fields: { accounts: [] },
  })
  const account = { account_id: String(accountId) }
  t.match(await world.activate(asks(choice, { account }), other), { error: { code: 'ACCOUNT_NOT_FOUND' } })
  t.match(await world.activate(asks(choice, { account })), { kind: 'answer' })
  const listed = await activation.listTasks({}, buyer)
  if (listed.kind !== 'answer') throw new Error('not listed')
  t.same((listed.fields.tasks as object[]).length, 2)
  t.match((listed.fields.tasks as object[])[1], { task_id: taskId }, 'the newest first')
  const walk = await activation.listTasks({ pagination: { max_results: 1 } }, buyer)
  if (walk.kind !== 'answer') throw new Error('not listed')
  const { cursor } = walk.fields.pagination as { cursor: string }
  const further = (request: object, as = buyer) =>
    activation.listTasks({ pagination: { cursor }, ...request } as never, as)
  t.match(await further({ include_history: true }), { fields: { tasks: [{ task_id: taskId }] } })
  for (const elsewhere of [
    { filters: { statuses: ['completed'] } },
    { sort: { direction: 'asc' } },
    { account },
  ]) {
    t.match(await further(elsewhere), { error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' } })
  }
  t.match(await further({}, other), { error: { field: 'pagination.cursor' } })
  const none = { task_type: 'activate_signal', task_types: ['create_media_buy'] } as const
  t.match(await activation.listTasks({ filters: { ...none, task_types: [...none.task_types] } }, buyer), {
    fields: { tasks: [], query_summary: { total_matching: 0 } },
  })
  const natural = { brand, operator: 'acme.example' }
  t.match(await activation.listTasks({ account: natural }, other), { kind: 'answer', fields: { tasks: [] } })
  t.match(await world.activate(asks(choice, { account: natural }), other), { kind: 'answer' })
  t.match(
    await store.ledger.query({ caller: other.id }, 10),
    [{ account: /acme\.example/ }],
    'its own account',
  )
})

test('a task under a declared account is found by its id and by its natural key', async (t) => {
  const world = await startWorld(t, { agents: ['meridian'] })
  const natural = { brand: { domain: 'acme.example' }, operator: 'acme.example' }
  const synced = await world.activation.syncAccounts(
    { idempotency_key: key(), accounts: [{ ...natural, billing: 'operator' }] },
    buyer,
  )
  if (synced.kind !== 'answer') throw new Error('not synced')
  const [{ account_id } = {}] = synced.fields.accounts as { account_id?: string }[]
  const account = { account_id: String(account_id) }
  const answer = await world.activate(asks(first(world.choices('meridian')), { account }))
  if (answer.kind !== 'answer') throw new Error('not activated')
  const task_id = answer.fields.task_id as string
  for (const named of [account, natural]) {
    t.match(await world.activation.taskStatus({ task_id, account: named }, buyer, soon()), { kind: 'answer' })
    t.match(await world.activation.listTasks({ account: named } as never, buyer), {
      fields: { tasks: [{ task_id }] },
    })
  }
})

test("a task of one account is not found under another of the caller's", async (t) => {
  const accounts = new Map([
    ['acc_1', new Map()],
    ['acc_2', new Map()],
  ])
  const caller = { ...buyer, accounts }
  const world = await startWorld(t, { agents: ['meridian'] })
  const answer = await world.activate(
    asks(first(world.choices('meridian')), { account: { account_id: 'acc_1' } }),
    caller,
  )
  if (answer.kind !== 'answer') throw new Error('not activated')
  const taskId = answer.fields.task_id as string
  const ask = (account?: { account_id: string }) =>
    world.activation.taskStatus({ task_id: taskId, ...(account && { account }) }, caller, soon())
  t.match(await ask(), { kind: 'answer' })
  t.match(await ask({ account_id: 'acc_1' }), { kind: 'answer' })
  t.match(await ask({ account_id: 'acc_2' }), { error: { code: 'REFERENCE_NOT_FOUND', field: 'task_id' } })
  t.same(await ask({ account_id: 'acc_3' }), await ask({ account_id: 'acc_2' }))
})
