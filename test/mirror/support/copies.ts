/** The places where a mirror keeps its copy, and the rows that anybody else finds there. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import pg from 'pg'
import { type Test, test } from 'tap'
import { bare, NO_POSTGRES } from '../../store/support/storages.js'

type Row = Record<string, unknown>

export type Place = {
  out: string
  format: 'ndjson' | 'sqlite'
  /** By segment id, as a reader beside the mirror finds them; empty where there is no copy. */
  rows(): Promise<Row[]>
  /** Takes one row out, behind the mirror's back. */
  spoil(): Promise<void>
  /** Writes another text where its state is. */
  spoilState(spoilt: (text: string) => string): Promise<void>
}

const byId = (rows: Row[]) =>
  rows.sort((a, b) => (String(a.signal_agent_segment_id) < String(b.signal_agent_segment_id) ? -1 : 1))

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-mirror-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export async function linesPlace(t: Test): Promise<Place> {
  const out = await folderOf(t)
  const file = join(out, 'feed.ndjson')
  const lines = async () => (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean)
  return {
    out,
    format: 'ndjson',
    rows: async () => byId((await lines()).map((line) => JSON.parse(line) as Row)),
    async spoil() {
      const [, ...rest] = await lines()
      await writeFile(file, `${rest.join('\n')}\n`)
    },
    async spoilState(spoilt) {
      const state = join(out, 'state.json')
      await writeFile(state, spoilt(await readFile(state, 'utf8')))
    },
  }
}

async function sqlitePlace(t: Test): Promise<Place> {
  const out = await folderOf(t)
  function using<T>(work: (db: Database.Database) => T): T {
    const db = new Database(join(out, 'feed.sqlite'), { timeout: 60_000 })
    try {
      return work(db)
    } finally {
      db.close()
    }
  }
  const all = 'select signal from tributary_mirror_signals'
  return {
    out,
    format: 'sqlite',
    rows: async () =>
      byId(
        using((db) => db.prepare(all).all() as { signal: string }[]).map(
          ({ signal }) => JSON.parse(signal) as Row,
        ),
      ),
    spoil: async () =>
      void using((db) =>
        db.exec(
          'delete from tributary_mirror_signals where id in (select id from tributary_mirror_signals limit 1)',
        ),
      ),
    spoilState: async (spoilt) =>
      using((db) => {
        const [row] = db.prepare('select state from tributary_mirror_state').all() as { state: string }[]
        db.prepare('update tributary_mirror_state set state = ?').run(spoilt(String(row?.state)))
      }),
  }
}

function postgresPlace(url: string): Place {
  async function ask(sql: string, values: string[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      return (await client.query(sql, values)).rows as Row[]
    } finally {
      await client.end()
    }
  }
  return {
    out: url,
    format: 'ndjson',
    rows: async () =>
      byId((await ask('select signal from tributary_mirror_signals')).map(({ signal }) => signal as Row)),
    spoil: async () =>
      void (await ask(
        'delete from tributary_mirror_signals where id in (select id from tributary_mirror_signals limit 1)',
      )),
    async spoilState(spoilt) {
      const [row] = await ask('select state from tributary_mirror_state')
      await ask('update tributary_mirror_state set state = $1', [spoilt(String(row?.state))])
    },
  }
}

/** Proves one rule on every kind of copy. */
export function onEveryCopy(rule: string, prove: (t: Test, place: Place) => Promise<void>): void {
  test(`${rule} (NDJSON)`, async (t) => prove(t, await linesPlace(t)))
  test(`${rule} (SQLite)`, async (t) => prove(t, await sqlitePlace(t)))
  test(`${rule} (PostgreSQL)`, { skip: NO_POSTGRES }, async (t) => {
    const storage = await bare(t)
    if (storage) await prove(t, postgresPlace(storage.url))
  })
}

/** Every kind of copy that this machine has. */
export async function everyPlace(t: Test): Promise<Place[]> {
  const storage = NO_POSTGRES ? undefined : await bare(t)
  return [await linesPlace(t), await sqlitePlace(t), ...(storage ? [postgresPlace(storage.url)] : [])]
}
