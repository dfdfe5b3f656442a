/**
 * A witness in the database: whatever is written that belongs to a lease is held against who holds it at that moment. Replicas
 * are known by the name that their connections have (PGAPPNAME).
 */
import pg from 'pg'

/** Rows and readings belong to the mirror of their agent; snapshots, and what is told of them, to the builder. */
const WATCH = `
  create table test_owners (owner text primary key, replica text not null);
  create table test_stale (name text, lease text, writer text, holder text);
  create function test_owner() returns trigger language plpgsql as $$ begin
    insert into test_owners values (new.owner, current_setting('application_name')) on conflict do nothing;
    return new;
  end $$;
  create trigger test_owner after insert or update on leases for each row execute function test_owner();
  create trigger test_owner after insert or update on jobs for each row when (new.owner is not null)
    execute function test_owner();
  create function test_writer() returns trigger language plpgsql as $$
  declare
    wrote text := case when tg_op = 'DELETE' then old.name else new.name end;
    needed text := case when wrote ~ '^(slice|reading)/' then 'mirror/' || regexp_replace(wrote, '^[a-z]+/[^/]*/', '')
      when wrote ~ '^form/' then substring(wrote from '^form/[^/]*/') || 'builder' end;
    holder text;
  begin
    if needed is null then return null; end if;
    select replica into holder from leases join test_owners using (owner) where leases.name = needed;
    if holder is distinct from current_setting('application_name') then
      insert into test_stale values (wrote, needed, current_setting('application_name'), holder);
    end if;
    return null;
  end $$;
  create trigger test_writer after insert or update or delete on manifests for each row execute function test_writer();
  create trigger test_writer after insert or update on notes for each row execute function test_writer();`

/** Connects past every line. The tables have to be there. */
export async function watchFence(url: string) {
  async function ask<Row extends pg.QueryResultRow>(
    sql: string,
    values: readonly unknown[] = [],
  ): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url, application_name: 'test' })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<Row>(sql, [...values])).rows
    } finally {
      await client.end()
    }
  }
  await ask(WATCH)

  return {
    /** What was written by who had no right to it. */
    stale: () =>
      ask<{ name: string; lease: string; writer: string; holder: string | null }>('select * from test_stale'),
    /** Which replica holds each lease now. */
    async holders(): Promise<Map<string, string>> {
      const rows = await ask<{ name: string; replica: string }>(
        `select name, replica from leases join test_owners using (owner)
          where until > extract(epoch from clock_timestamp()) * 1000`,
      )
      return new Map(rows.map(({ name, replica }) => [name, replica]))
    },
    /** For a replica that is dead, the time in which its leases end has passed. */
    async endLeasesOf(replica: string): Promise<void> {
      const its = 'owner in (select owner from test_owners where replica = $1)'
      await ask(`update leases set until = 0 where ${its}`, [replica])
      await ask(`update jobs set due = 0 where due is not null and ${its}`, [replica])
    },
    ask,
  }
}

export type Fence = Awaited<ReturnType<typeof watchFence>>
