/** `tributary ledger`: what was activated and deactivated, by whom, where, and what came of it; newest first. */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config/values.js'
import { type Entry, type LedgerFilter, ledgerEntries } from '../store/ledger.js'
import { openStore } from '../store/store.js'
import { CommandFailure } from './failure.js'
import { storageFolder } from './storage-folder.js'
import { renderTable, tableWidth } from './table.js'

export type LedgerCommand = {
  config: Config
  filter: LedgerFilter
  /** Entries shown. */
  limit: number
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

const HEADER = ['when', 'caller', 'action', 'outcome', 'upstream', 'destinations', 'handle']

function destinationText(destination: unknown): string {
  const { platform, agent_url, account } = destination as Record<string, string | undefined>
  return `${platform ?? agent_url ?? '?'}${account ? ` (${account})` : ''}`
}

function cells(entry: Entry): string[] {
  const { createdAt, caller, action, outcome, upstream, destinations, handle } = entry
  const when = new Date(createdAt).toISOString().slice(0, 19).replace('T', ' ')
  return [when, caller, action, outcome, upstream, destinations.map(destinationText).join(', '), handle]
}

async function requireStorage({ storage, file }: Config): Promise<void> {
  const folder = storageFolder(storage.url)
  if (!folder) return
  await access(join(folder, 'tributary.db')).catch(() => {
    throw new CommandFailure(
      `there is no storage at ${folder}; run this where \`tributary serve --config ${file}\` runs`,
    )
  })
}

/** Prints entries that match. Reads beside a running server. */
export async function printLedger({
  config,
  filter,
  limit,
  json,
  out,
  err,
  now,
}: LedgerCommand): Promise<void> {
  await requireStorage(config)
  const store = await openStore({
    url: config.storage.url,
    now,
    onProblem: (problem) => err.write(`tributary: ${problem}\n`),
  })
  try {
    const shown: Entry[] = []
    let more = false
    for await (const entry of ledgerEntries(store.ledger, filter)) {
      more = shown.length === limit
      if (more) break
      shown.push(entry)
      if (json) out.write(`${JSON.stringify(entry)}\n`)
    }
    if (json) return
    out.write(`${renderTable(HEADER, shown.map(cells), tableWidth(out))}\n\n`)
    out.write(`${shown.length} entries${more ? ', the newest of more (--limit)' : ''}\n`)
  } finally {
    await store.close()
  }
}
