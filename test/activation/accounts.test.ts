import { type Test, test } from 'tap'
import type { SyncAccountsRequest } from '../../src/adcp/task-schemas.js'
import { listAccounts } from '../../src/tasks/list-accounts.js'
import { syncAccounts } from '../../src/tasks/sync-accounts.js'
import { embedded, onEveryStorage, type Storage } from '../store/support/storages.js'
import { costRatio } from '../support/cost-ratio.js'
import { asked, SECRET } from './support/asked.js'
import { buyer } from './support/parts.js'
import { paused } from './support/paused.js'
import { key } from './support/world.js'

const acme: SyncAccountsRequest['accounts'][number] = {
  brand: { domain: 'acme.example' },
  operator: 'agency.example',
  billing: 'operator',
}
const nova: SyncAccountsRequest['accounts'][number] = {
  ...{ brand: { domain: 'nova.example', brand_id: 'spark' }, operator: 'agency.example', billing: 'agent' },
}
const config = {
  subscriber_id: 'primary',
  url: 'https://hooks.buyer.example/adcp',
  event_types: ['signal.priced', 'wholesale_feed.bulk_change'],
  active: false,
}

/** The repository is proved on both databases; the rules above it do not know which they stand on. */
function onEmbeddedStorage(rule: string, prove: (t: Test, storage: Storage) => Promise<void>): void {
  test(rule, async (t) => prove(t, await embedded(t)))
}

async function tasks(storage: Storage) {
  const store = await storage.open()
  const sync = asked(syncAccounts({ store, subscribing: paused(store) }))
  const list = asked(listAccounts({ store, secret: SECRET }))
  type Row = Record<string, unknown>
  return {
    async sync(
      accounts: SyncAccountsRequest['accounts'][number][],
      more: Partial<SyncAccountsRequest> = {},
      as = buyer,
    ) {
      const answer = await sync({ idempotency_key: key(), accounts, ...more }, as)
      if (answer.kind !== 'answer') throw new Error(answer.error.message)
      return answer.fields.accounts as Row[]
    },
    async list(request = {}, as = buyer) {
      const answer = await list(request, as)
      if (answer.kind !== 'answer') throw new Error(answer.error.message)
      return answer.fields as { accounts: Row[]; pagination: { has_more: boolean; cursor?: string } }
    },
    raw: sync,
  }
}

onEmbeddedStorage('a declared account is created, left alone, changed and closed', async (t, storage) => {
  const { sync, list } = await tasks(storage)
  const [created] = await sync([acme])
  t.match(created, {
    action: 'created',
    status: 'active',
    name: 'acme.example c/o agency.example',
    billing: 'operator',
  })
  t.match(await sync([acme]), [{ action: 'unchanged', account_id: created?.account_id }])
  t.match(await sync([{ ...acme, payment_terms: 'net_30' }]), [
    { action: 'updated', payment_terms: 'net_30', warnings: [/invoices come from the upstreams/] },
  ])
  t.match(await sync([{ account: { account_id: String(created?.account_id) }, payment_terms: 'net_60' }]), [
    { action: 'updated', payment_terms: 'net_60', brand: { domain: 'acme.example' } },
  ])
  t.match(await sync([nova], { delete_missing: true }), [
    { action: 'created', name: 'nova.example (spark) c/o agency.example' },
    { action: 'updated', status: 'closed', account_id: created?.account_id },
  ])
  t.match((await list({ status: 'active' })).accounts, [{ brand: { brand_id: 'spark' } }])
  const again = await sync([nova], { delete_missing: true })
  t.match(again, [{ action: 'unchanged' }], 'what is closed is not closed again')
  t.equal(again.length, 1)
  const { account_id = '' } = created as { account_id?: string }
  t.match(await sync([{ account: { account_id }, payment_terms: 'net_30' }]), [{ status: 'closed' }])
  t.match(await sync([acme]), [{ action: 'updated', status: 'active' }])
})

onEmbeddedStorage('a dry run tells what would be and changes nothing', async (t, storage) => {
  const { sync, list } = await tasks(storage)
  t.match(await sync([acme, acme], { dry_run: true }), [{ action: 'created' }, { action: 'unchanged' }])
  t.same((await list()).accounts, [])
})

onEveryStorage('a sync is applied once for its key', async (t, storage) => {
  const { raw, list } = await tasks(storage)
  const request = { idempotency_key: key(), accounts: [acme] }
  t.match(await raw(request, buyer), { replayed: undefined, fields: { accounts: [{ action: 'created' }] } })
  t.match(await raw(request, buyer), { replayed: true, fields: { accounts: [{ action: 'created' }] } })
  t.match(await raw({ ...request, accounts: [nova] }, buyer), { error: { code: 'IDEMPOTENCY_CONFLICT' } })
  t.equal((await list()).accounts.length, 1)
})

onEveryStorage('of two requests at once neither takes back what the other changed', async (t, storage) => {
  const { sync, list } = await tasks(storage)
  await sync([acme])
  const account = { brand: { domain: 'acme.example' }, operator: 'agency.example' }
  for (let round = 0; round < 20; round += 1) {
    const payment_terms = round % 2 === 0 ? 'net_30' : 'net_60'
    const subscriber_id = `round_${round}`
    await Promise.all([
      sync([{ account, payment_terms }]),
      sync([{ account, notification_configs: [{ ...config, subscriber_id }] }]),
    ])
    const [now] = (await list()).accounts
    t.match(now, { payment_terms, notification_configs: [{ subscriber_id }] }, `round ${round}`)
  }
})

onEveryStorage(
  'subscriptions are kept, shown without credentials, replaced and cleared',
  async (t, storage) => {
    const { sync, list } = await tasks(storage)
    const credentials = 'a-credential-of-thirty-two-characters'
    const secret = { ...config, authentication: { schemes: ['Bearer'], credentials } }
    const [created] = await sync([{ ...acme, notification_configs: [secret] }])
    const shown = [{ ...config, authentication: { schemes: ['Bearer'] } }]
    t.same(created?.notification_configs, shown)
    t.same((await list()).accounts[0]?.notification_configs, shown)
    t.notMatch(JSON.stringify(await list()), new RegExp(credentials))
    t.match(
      await sync([acme]),
      [{ action: 'unchanged', notification_configs: shown }],
      'left out: left alone',
    )
    const next = { ...config, subscriber_id: 'audit' }
    t.same(
      (await sync([{ ...acme, notification_configs: [next] }]))[0]?.notification_configs,
      [next],
      'replaced whole',
    )
    const [cleared] = await sync([{ ...acme, notification_configs: [] }])
    t.match(cleared, { action: 'updated' })
    t.same(cleared?.notification_configs, [])
    t.same((await list()).accounts[0]?.notification_configs, [])
  },
)

onEmbeddedStorage(
  'a subscription that is wrong or active fails its account and changes nothing',
  async (t, storage) => {
    const { sync, list } = await tasks(storage)
    await sync([{ ...acme, notification_configs: [config] }])
    const at = 'notification_configs[0]'
    const wrong: [object, string, string][] = [
      [{ active: true }, 'UNSUPPORTED_FEATURE', `${at}.active`],
      [{ active: undefined }, 'UNSUPPORTED_FEATURE', `${at}.active`],
      [{ url: 'http://hooks.buyer.example/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://127.0.0.1/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://[::ffff:10.0.0.1]/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://0x7f.1/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://localhost/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://db.internal/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ url: 'https://user:pass@hooks.buyer.example/' }, 'INVALID_REQUEST', `${at}.url`],
      [{ event_types: ['signal.priced', 'final'] }, 'INVALID_REQUEST', `${at}.event_types[1]`],
      [{ event_types: ['account.status_changed'] }, 'INVALID_REQUEST', `${at}.event_types[0]`],
      [{ event_types: undefined }, 'INVALID_REQUEST', `${at}.event_types`],
      [{ subscriber_id: 'with space' }, 'INVALID_REQUEST', `${at}.subscriber_id`],
      [{ authentication: { schemes: ['Bearer'] } }, 'INVALID_REQUEST', `${at}.authentication`],
    ]
    for (const [change, code, field] of wrong) {
      const [result] = await sync([{ ...acme, notification_configs: [{ ...config, ...change }] }])
      t.match(
        result,
        { action: 'failed', status: 'rejected', errors: [{ code, field }] },
        JSON.stringify(change),
      )
    }
    const [twice, other] = await sync([{ ...acme, notification_configs: [config, config] }, nova])
    t.match(twice, { status: 'rejected', errors: [{ field: 'notification_configs[1].subscriber_id' }] })
    t.match(other, { action: 'created' }, 'one failed entry fails no other')
    t.same((await list()).accounts[0]?.notification_configs, [config])
  },
)

onEmbeddedStorage('entries that cannot be are refused one by one', async (t, storage) => {
  const { sync } = await tasks(storage)
  t.match(
    await sync([
      { ...acme, billing: 'advertiser' },
      { account: { account_id: 'acc_nobody' } },
      { brand: { domain: 'acme.example' } },
      { account: { brand: { domain: 'acme.example' }, operator: 'agency.example' } },
      { account: { account_id: 'acc_nobody' }, billing: 'operator' },
    ]),
    [
      {
        action: 'failed',
        status: 'rejected',
        errors: [{ code: 'BILLING_NOT_SUPPORTED', field: 'billing', details: { scope: 'capability' } }],
      },
      {
        ...{ action: 'failed', account_id: 'acc_nobody' },
        errors: [{ code: 'ACCOUNT_NOT_FOUND', recovery: 'terminal' }],
      },
      { action: 'failed', errors: [{ code: 'INVALID_REQUEST', field: 'operator', suggestion: /operator/ }] },
      { action: 'failed', brand: { domain: 'acme.example' }, errors: [{ code: 'ACCOUNT_NOT_FOUND' }] },
      { action: 'failed', errors: [{ code: 'INVALID_REQUEST', field: 'billing' }] },
    ],
  )
})

onEmbeddedStorage(
  'configured and declared accounts are listed together, page by page',
  async (t, storage) => {
    const { sync, list } = await tasks(storage)
    const caller = { ...buyer, accounts: new Map([['acc_house', new Map()]]) }
    await sync([acme, { ...nova, sandbox: true }], {}, caller)
    t.match(
      await sync([{ account: { account_id: 'acc_house' }, notification_configs: [config] }], {}, caller),
      [{ action: 'updated', brand: { domain: /invalid$/ }, warnings: [/does not know the brand/] }],
    )
    const bank = { legal_name: 'Acme', bank: { account_holder: 'Acme', iban: 'DE75512108001245126199' } }
    const [billed] = await sync([{ ...acme, billing_entity: bank }], {}, caller)
    t.same(billed?.billing_entity, { legal_name: 'Acme' }, 'bank details are not even kept')
    const names: unknown[] = []
    let cursor: string | undefined
    do {
      const page = await list({ pagination: { max_results: 1, ...(cursor && { cursor }) } }, caller)
      names.push(...page.accounts.map((account) => account.name))
      cursor = page.pagination.cursor
    } while (cursor)
    t.same(names, ['acc_house', 'acme.example c/o agency.example', 'nova.example (spark) c/o agency.example'])
    const { cursor: given } = (await list({ pagination: { max_results: 1 } }, caller)).pagination
    const pagination = { cursor: given as string }
    t.equal((await list({ pagination, context: { walk: 1 } }, caller)).accounts.length, 2)
    for (const elsewhere of [{ sandbox: true }, { status: 'active' as const }]) {
      await t.rejects(list({ ...elsewhere, pagination }, caller), /cursor/, 'it belongs to its filters')
    }
    await t.rejects(list({ pagination }, { ...caller, id: 'somebody' }), /cursor/, 'and to its caller')
    t.match((await list({ sandbox: true }, caller)).accounts, [{ sandbox: true }])
    const direct = { ...buyer, id: 'direct', accounts: new Map([['acc_untold', new Map()]]) }
    await sync([{ ...acme, operator: 'acme.example' }], {}, direct)
    t.same(
      (await list({ status: 'active' }, direct)).accounts.map(({ name }) => name),
      ['acc_untold', 'acme.example'],
      'an account of which nothing was told is active; a brand that operates itself is named once',
    )
    t.match((await list({ account: { account_id: 'acc_house' } }, caller)).accounts, [
      { account_id: 'acc_house', notification_configs: [config] },
    ])
    await t.rejects(list({ pagination: { cursor: 'forged' } }, caller), /cursor/)
  },
)

onEveryStorage(
  'every page of every selection of accounts is the part that it should be',
  async (t, storage) => {
    const { sync, list } = await tasks(storage)
    const caller = { ...buyer, accounts: new Map(['acc_b', 'acc_z', 'acc_a'].map((id) => [id, new Map()])) }
    for (const at of [3, 1, 2, 0, 4]) {
      const brand = { domain: `brand${at}.example`, brand_id: at === 2 ? 'a_sandbox_true' : 'b' }
      await sync([{ ...acme, brand, ...(at % 2 === 1 && { sandbox: true }) }], {}, caller)
    }
    const keyOf = (at: number, sandbox = false) => ({
      ...{ brand: { domain: `brand${at}.example`, brand_id: 'b' }, operator: acme.operator },
      ...(sandbox && { sandbox: true }),
    })
    await sync([{ account: { account_id: 'acc_z' }, payment_terms: 'net_30' }], {}, caller)
    const whole = (await list({}, caller)).accounts
    t.equal(whole.length, 8)
    const closed = whole[5]?.account_id
    const rest = whole.slice(3).filter(({ account_id }) => account_id !== closed)
    const kept = rest.map(({ brand, operator, sandbox }) => ({
      ...acme,
      brand,
      operator,
      ...(sandbox === true && { sandbox }),
    }))
    await sync(kept as never, { delete_missing: true }, caller)
    const all = (await list({}, caller)).accounts
    const first = all[3]?.account_id as string
    const selections: [object, (row: Record<string, unknown>) => boolean][] = [
      [{}, () => true],
      [{ status: 'active' }, ({ status }) => status === 'active'],
      [{ status: 'closed' }, ({ status }) => status === 'closed'],
      [{ sandbox: true }, ({ sandbox }) => sandbox === true],
      [{ sandbox: false }, ({ sandbox }) => sandbox !== true],
      [
        { sandbox: false, status: 'active' },
        ({ sandbox, status }) => sandbox !== true && status === 'active',
      ],
      [{ account: { account_id: 'acc_a' } }, ({ account_id }) => account_id === 'acc_a'],
      [{ account: { account_id: first } }, ({ account_id }) => account_id === first],
      [
        { account: keyOf(1, true) },
        ({ brand }) => (brand as { domain?: string } | undefined)?.domain === 'brand1.example',
      ],
      [{ account: keyOf(1) }, () => false],
    ]
    for (const [selection, isMeant] of selections) {
      const wanted = all.filter(isMeant)
      for (const max_results of [1, 2, 3, 4, 7, 8, 9]) {
        const found: unknown[] = []
        for (let cursor: string | undefined, pages = 0; pages < 10; pages += 1) {
          const page = await list(
            { ...selection, pagination: { max_results, ...(cursor && { cursor }) } },
            caller,
          )
          found.push(...page.accounts)
          t.match(page.pagination, { total_count: wanted.length, has_more: found.length < wanted.length })
          cursor = page.pagination.cursor
          if (!cursor) break
        }
        t.same(found, wanted, `${JSON.stringify(selection)} by ${max_results}`)
      }
    }
    const named = { ...caller, accounts: new Map([[first, new Map()]]) }
    const ids = (await list({}, named)).accounts.map(({ account_id }) => account_id)
    t.equal(new Set(ids).size, ids.length, 'one that is declared and configured is one account')
  },
)

onEmbeddedStorage('of many accounts those of the page are read', async (t, storage) => {
  const store = await storage.open()
  const rows = Array.from(
    { length: 400 },
    (_, at) => `{"brand":{"domain":"b${at}.example"},"operator":"o.example"}`,
  )
  for (const [at, naturalKey] of rows.entries()) {
    const settings = { ...JSON.parse(naturalKey), billing: 'operator' }
    const more = { naturalKey, settings, status: 'active', notificationConfigs: [] } as const
    await store.accounts.put({ caller: buyer.id, accountId: `acc_${at}`, ...more })
  }
  const read: number[] = []
  const heard =
    <A extends unknown[], R>(ask: (...given: A) => Promise<R>) =>
    async (...given: A): Promise<R> => {
      const result = await ask(...given)
      read.push(JSON.stringify(result ?? '').length)
      return result
    }
  const { list, declared, getAll } = store.accounts
  const accounts = { ...store.accounts, list: heard(list), declared: heard(declared), getAll: heard(getAll) }
  const answer = await asked(listAccounts({ store: { ...store, accounts }, secret: SECRET }))(
    { pagination: { max_results: 10 } },
    buyer,
  )
  t.match(answer, { fields: { pagination: { has_more: true, total_count: 400 } } })
  t.ok(Math.max(...read) < 4_000, `${Math.max(...read)} bytes`)
})

const many = (length: number) =>
  Array.from({ length }, (_, at) => ({ ...acme, brand: { domain: `brand-${at}.example` } }))

onEmbeddedStorage('a thousand entries are looked at in many turns of the event loop', async (t, storage) => {
  const { sync } = await tasks(storage)
  let turn = 0
  let isOver = false
  const count = () => {
    turn += 1
    if (!isOver) setImmediate(count)
  }
  count()
  const turns = new Set<number>()
  const entries = many(1_000).map((entry) => ({
    ...entry,
    get notification_configs() {
      turns.add(turn)
      return []
    },
  }))
  const results = await sync(entries, { dry_run: true })
  isOver = true
  t.equal(results.length, 1_000)
  t.ok(turns.size > 100, `in ${turns.size} turns`)
})

onEmbeddedStorage('eight times as many accounts cost eight times as much to close', async (t, storage) => {
  const { sync } = await tasks(storage)
  const other = { ...buyer, id: 'holds-few' }
  for (const from of [0, 1_000]) await sync(many(2_000).slice(from, from + 1_000))
  await sync(many(250), {}, other)
  const closing = (as: typeof buyer, times: number) => ({
    work: () => sync([nova], { delete_missing: true, dry_run: true }, as),
    times,
  })
  const ratio = await costRatio(closing(other, 4), closing(buyer, 1), 14)
  t.ok(ratio < 14, `they cost ${ratio} times as much`)
})
