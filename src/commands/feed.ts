/** `tributary feed`: the running feed as a table for people or JSON lines for machines. */
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import { renderTable, tableWidth } from '../explain/table.js'
import type { Address } from './address.js'
import { type FeedPage, type FeedRow, walkFeed } from './feed-walk.js'
import { CommandFailure, createProgress } from './terminal.js'

export type FeedOptions = Address & {
  filters: Record<string, unknown> | undefined
  /** Rows the table shows; JSON lines are never cut. */
  limit: number
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

/** Of a table of signals. */
export const HEADER = ['signal', 'provider', 'type', 'live', 'lowest price', 'upstreams', 'handle']

function price(options: FeedRow['pricing_options']): string {
  if (!options) return '-'
  const cpms = options.filter(({ model }) => model === 'cpm').sort((a, b) => Number(a.cpm) - Number(b.cpm))
  const [cheapest] = cpms
  if (cheapest) return `${cheapest.cpm} ${cheapest.currency} cpm`
  return options.map(({ model }) => String(model)).join(', ')
}

/** One signal in the order of the header. */
export function cells(row: FeedRow): string[] {
  const live = row.deployments.filter(({ is_live }) => is_live).length
  const upstreams = row.ext?.tributary?.offers?.map(({ upstream }) => upstream) ?? []
  return [
    row.name,
    row.data_provider ?? '',
    row.signal_type,
    `${live} of ${row.deployments.length}`,
    price(row.pricing_options),
    [...new Set(upstreams)].join(', '),
    row.signal_agent_segment_id,
  ]
}

/** Prints the feed. Throws what the walk throws. */
export async function printFeed({ base, out, err, json, limit, ...options }: FeedOptions): Promise<void> {
  const url = `${base}/mcp`
  const progress = createProgress(err, options.now)
  let rows: FeedRow[] = []
  let seen = 0
  let last: FeedPage | undefined
  try {
    for await (const page of walkFeed({ url, token: options.token, filters: options.filters })) {
      if (page.first) {
        if (json && seen > 0)
          throw new CommandFailure(
            'the feed moved during the walk, so the lines above are stale; run it again',
          )
        rows = []
        seen = 0
      }
      seen += page.signals.length
      if (json) for (const row of page.signals) out.write(`${JSON.stringify(row)}\n`)
      else rows.push(...page.signals.slice(0, Math.max(0, limit - rows.length)))
      progress.show(`${seen} of ${page.total ?? '?'} signals`)
      last = page
    }
  } finally {
    progress.done()
  }
  if (json || !last) return
  out.write(`${renderTable(HEADER, rows.map(cells), tableWidth(out))}\n\n`)
  const cut = rows.length < seen ? `, the first ${rows.length} shown (--limit)` : ''
  out.write(`${howMany(seen, 'signal')}${cut}, version ${last.version}\n`)
  for (const { scope, description } of forTerminal(last.incomplete)) {
    out.write(`incomplete (${scope}): ${description}\n`)
  }
}
