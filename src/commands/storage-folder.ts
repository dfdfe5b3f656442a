/** Where an embedded storage lies on disk, for commands that look into it beside a running server. */
import { access } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Config } from '../config/values.js'
import { CommandFailure } from './failure.js'

/** Undefined for a shared database. */
export function storageFolder(url: string): string | undefined {
  return url.startsWith('file:') ? resolve(url.slice('file:'.length).replace(/^\/\/(?=\/)/, '')) : undefined
}

/** Throws `CommandFailure` where no server has run: a command must not leave an empty storage behind. */
export async function requireStorage({ storage, file }: Config): Promise<void> {
  const folder = storageFolder(storage.url)
  if (!folder) return
  await access(join(folder, 'tributary.db')).catch(() => {
    throw new CommandFailure(
      `there is no storage at ${folder}; run this where \`tributary serve --config ${file}\` runs`,
    )
  })
}
