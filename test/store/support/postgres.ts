/** A throwaway PostgreSQL: a cluster of its own in a temporary folder, on a loopback port of its own; and its databases. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { reservedPort } from '../../support/reserved-port.js'

export type Postgres = {
  port: number
  /** Its first database, which is empty. */
  url: string
  /** Ends the server as a power cut would. */
  kill(): Promise<void>
  start(): Promise<void>
  remove(): Promise<void>
}

type User = { uid: number; gid: number }

/** PostgreSQL refuses to run as root; some other user has to. */
function unprivileged(): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/** Where the server's binaries are; undefined when this machine has none. */
export function postgresBinaries(): string | undefined {
  try {
    const folder = execFileSync('pg_config', ['--bindir'], { encoding: 'utf8', stdio: 'pipe' }).trim()
    return existsSync(join(folder, 'initdb')) ? folder : undefined
  } catch {
    return undefined // no pg_config: the caller skips and says so
  }
}

/** Backs one database up without its blobs, to `file`, and restores it as another: the commands of docs/storage.md. */
export function restoreDump(binaries: string, from: string, to: string, file: string): void {
  const run = (command: string, ...args: string[]) =>
    execFileSync(join(binaries, command), args, { stdio: 'pipe' })
  const noBlobs = '--exclude-table-data=(blob*|manifests|pieces)'
  run('pg_dump', '--format=custom', noBlobs, `--file=${file}`, from)
  run('pg_restore', `--dbname=${to}`, file)
}

const urlOf = (port: number, database: string) => `postgres://tributary@127.0.0.1:${port}/${database}`

async function ask(port: number, database: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: urlOf(port, database) })
  client.on('error', () => {}) // a server that goes away while we ask fails the query too
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

/** Whoever is still there belongs to a test that is over. */
const ALONE =
  'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();'

/** Without tables, whoever made them. */
const BARE = `${ALONE}
  do $$
  declare each record;
  begin
    for each in select tablename from pg_tables where schemaname = 'public' loop
      execute format('drop table public.%I cascade', each.tablename);
    end loop;
  end $$`

/** With the tables of this release, as it makes them: their rows are gone. To drop and make them again takes twice as long. */
const CLEARED = `${ALONE}
  do $$
  declare each record;
  begin
    for each in select tablename from pg_tables where schemaname = 'public' and tablename not like 'kysely%' loop
      execute format('delete from public.%I', each.tablename);
    end loop;
    for each in select sequencename from pg_sequences where schemaname = 'public' loop
      execute format('alter sequence public.%I restart', each.sequencename);
    end loop;
  end $$`

/** Databases of a running server. To empty one that was used takes a tenth of the time of creating one. */
export function createDatabases(port: number) {
  const created = { bare: 0, cleared: 0 }

  function kept(kind: keyof typeof created, emptied: string) {
    const idle: string[] = []
    return {
      /** The url of one that is nobody's. */
      async take(): Promise<string> {
        const used = idle.pop()
        if (used) {
          await ask(port, used, emptied)
          return urlOf(port, used)
        }
        created[kind] += 1
        const name = `test_${kind}_${process.pid}_${created[kind]}`
        await ask(port, 'postgres', `create database ${name}`)
        return urlOf(port, name)
      },
      /** It may be emptied and taken by somebody else. */
      give(url: string): void {
        idle.push(new URL(url).pathname.slice(1))
      },
    }
  }

  return {
    /** Without any tables: for those who make others than this release, or look at how it makes them. */
    bare: kept('bare', BARE),
    /** Without rows: for those whose tables only this release makes. */
    cleared: kept('cleared', CLEARED),
  }
}

/**
 * Runs the server until a line comes. A parent that was killed sends none: then the server ends and its folder goes,
 * so that an aborted test leaves nothing behind.
 */
const KEEPER = `folder=$1; shift; "$@" & server=$!
  read -r asked; kill -QUIT $server; wait $server
  [ -n "$asked" ] || rm -rf "$folder"`

/** A folder of whoever runs the server. */
function folderOf(user: User | undefined): string {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-postgres-'))
  if (user) chownSync(folder, user.uid, user.gid)
  return folder
}

function initialize(binaries: string, folder: string, data: string, user: User | undefined): void {
  const how = ['-U', 'tributary', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--wal-segsize=1']
  execFileSync(join(binaries, 'initdb'), ['-D', data, ...how], { ...user, cwd: folder, stdio: 'pipe' })
}

/**
 * A cluster that no server has started: from now on this process, and those that it starts, copy it where they need one of their
 * own, in a twentieth of the time that it takes to make it. Gives what removes it.
 */
export function makeCluster(binaries: string): () => void {
  const user = unprivileged()
  const folder = folderOf(user)
  const data = join(folder, 'data')
  initialize(binaries, folder, data, user)
  process.env.TRIBUTARY_TEST_CLUSTER = data
  return () => rmSync(folder, { recursive: true, force: true })
}

export async function startPostgres(binaries: string): Promise<Postgres> {
  const user = unprivileged()
  const folder = folderOf(user)
  const data = join(folder, 'data')
  const { TRIBUTARY_TEST_CLUSTER: made } = process.env
  if (made) execFileSync('cp', ['-rp', made, data], { ...user, cwd: folder, stdio: 'pipe' })
  else initialize(binaries, folder, data, user)
  const port = await reservedPort()
  let server: ChildProcess | undefined

  async function start(): Promise<void> {
    const settings = {
      listen_addresses: '127.0.0.1',
      port,
      unix_socket_directories: '',
      fsync: 'off',
      max_connections: 300,
      autovacuum: 'off', // plans would depend on when it counts rows
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const command = [join(binaries, 'postgres'), '-D', data, ...flags]
    server = spawn('sh', ['-c', KEEPER, 'keeper', folder, ...command], {
      ...user,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await ask(port, 'postgres', 'select 1')
      } catch (error) {
        if (attempt === 2_400) throw error // a minute: a busy machine starts slowly
        await wait(25)
      }
    }
  }

  async function kill(): Promise<void> {
    if (!server || server.exitCode !== null || server.signalCode !== null) return
    server.stdin?.write('stop\n') // an immediate shutdown: no checkpoint, its children end too
    await once(server, 'exit')
  }

  await start()
  return {
    port,
    url: urlOf(port, 'postgres'),
    kill,
    start,
    async remove() {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
