/**
 * How rows are read from the embedded database: each as one JSON text, as bytes that are checked before they are
 * decoded. libsql ends the whole process on a text that is not UTF-8 (a disk that flipped a bit).
 */
import { isUtf8 } from 'node:buffer'
import type Database from 'libsql'

/** Rows of a statement, as the JSON of an array of their values in the order of `columns`. */
export type SqliteRows = { columns: readonly string[]; json: string }

/** What libsql returns for a row of one column. */
type Row = readonly [ArrayBuffer]

export class DamagedText extends Error {
  override readonly name = 'DamagedText'
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

function decoded([bytes]: Row): string {
  const text = Buffer.from(bytes)
  if (!isUtf8(text)) throw new DamagedText('a text in it is not UTF-8')
  return text.toString()
}

/** Whether a statement only reads. One that writes and returns rows returns ids and numbers that it was given. */
export function isQuery(sql: string): boolean {
  return /^\s*select\b/i.test(sql)
}

/** A prepared query. Reading throws `DamagedText` for a row that is not text. */
export function prepareQuery(db: Database.Database, sql: string) {
  const columns = db
    .prepare(sql)
    .columns()
    .map(({ name }) => name)
  const row = `json_array(${columns.map(quoted).join(', ')})`
  const statement = db.prepare(`select cast(${row} as blob) from (${sql})`).raw()
  return {
    all(parameters: readonly unknown[]): SqliteRows {
      const rows = statement.all(parameters) as Row[]
      return { columns, json: `[${rows.map(decoded).join(',')}]` }
    },
    /** Every page on the way to the rows is read, and each row to its end. */
    readThrough(): void {
      for (const row of statement.iterate()) decoded(row as unknown as Row)
    },
  }
}

/** The rows as objects. */
export function readSqliteRows({ columns, json }: SqliteRows): Record<string, unknown>[] {
  return (JSON.parse(json) as unknown[][]).map((values) =>
    Object.fromEntries(columns.map((name, at) => [name, values[at]])),
  )
}
