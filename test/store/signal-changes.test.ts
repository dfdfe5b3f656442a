import { sql } from 'kysely'
import type { SignalChange } from '../../src/store/records/activity.js'
import { onEveryStorage } from './support/storages.js'

const MOST_ROWS = 100_000
const change = (handle: string, at: number, kind: SignalChange['kind'] = 'priced') => ({
  ...{ handle, at, kind },
  told: { after: { sellers: 1 } },
})

onEveryStorage(
  'a signal has its own changes, and those of many since the first of them',
  async (t, storage) => {
    const { signalChanges } = await storage.open()
    t.same(await signalChanges.of('sig_a', 10), [])
    await signalChanges.note([])
    await signalChanges.note([change('', 1, 'many'), change('sig_a', 2), change('sig_b', 3)])
    await signalChanges.note([change('', 4, 'many'), change('sig_a', 5, 'removed')])
    const kinds = async (limit: number) =>
      (await signalChanges.of('sig_a', limit)).map(({ at, kind }) => [at, kind])
    t.same(await kinds(10), [
      [2, 'priced'],
      [4, 'many'],
      [5, 'removed'],
    ])
    t.same(await kinds(1), [[5, 'removed']], 'the last of them')
    t.same((await signalChanges.of('sig_b', 10))[0], {
      ...{ at: 3, kind: 'priced' },
      told: { after: { sellers: 1 } },
    })
  },
)

onEveryStorage('the oldest changes are deleted', async (t, storage) => {
  const { signalChanges, db } = await storage.open()
  await sql`insert into signal_changes (id, handle, at, kind, told)
    with recursive n(i) as (select 1 union all select i + 1 from n where i < ${sql.lit(MOST_ROWS)})
    select 'id-' || i, case when i = 1 then 'sig_old' else 'sig_many' end, i, 'priced', '{}' from n`.execute(
    db,
  )
  await signalChanges.note([change('sig_many', MOST_ROWS + 1)])
  const { count } = await db
    .selectFrom('signal_changes')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  t.equal(Number(count), MOST_ROWS)
  t.same(await signalChanges.of('sig_old', 10), [])
  t.equal((await signalChanges.of('sig_many', 10)).at(-1)?.at, MOST_ROWS + 1)
})
