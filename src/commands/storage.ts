/** `tributary move-storage`: the whole state to another storage, for one server that becomes several (docs/storage.md). */

import { access } from 'node:fs/promises'
import type { Config } from '../config/values.js'
import { renderTable, tableWidth } from '../explain/text-table.js'
import { databaseFile, storageFolder } from '../store/database/folder.js'
import { moveStore } from '../store/move-store.js'
import { openStore, type Store } from '../store/store.js'
import { CommandFailure } from './terminal.js'

/** Throws `CommandFailure` where no server has run: a command must not leave an empty storage behind. */
export async function requireStorage({ storage, file }: Config): Promise<void> {
  const folder = storageFolder(storage.url)
  if (!folder) return
  await access(databaseFile(folder)).catch(() => {
    throw new CommandFailure(
      `there is no storage at ${folder}; run this where \`tributary serve --config ${file}\` runs`,
    )
  })
}

export type MoveStorageOptions = {
  config: Config
  /** `file:FOLDER` or `postgres://...`; it must hold no state. */
  to: string
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

/** Throws `CommandFailure` when a storage cannot be opened or the target is not empty. The source is only read. */
export async function moveStorage({ config, to, json, out, err, now }: MoveStorageOptions): Promise<void> {
  await requireStorage(config)
  const opened: Store[] = []
  async function open(url: string): Promise<Store> {
    const store = await openStore({ url, now, onProblem: (problem) => err.write(`${problem}\n`) })
    opened.push(store)
    return store
  }
  try {
    const moved = await moveStore(await open(config.storage.url), await open(to))
    const rows = Object.entries(moved).map(([table, count]) => [table, String(count)])
    out.write(
      json ? `${JSON.stringify(moved)}\n` : `${renderTable(['what', 'moved'], rows, tableWidth(out))}\n`,
    )
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  } finally {
    for (const store of opened) await store.close()
  }
}
