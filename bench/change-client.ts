/**
 * Run as a child process: a client of the server at a url. It asks for the first page again and again until one is as the last message
 * says, and answers with that page's version and the moment at which it came. Nothing that it reads stops the server's thread.
 */
import { callTool } from '../test/support/call-tool.js'

const [url = '', token = ''] = process.argv.slice(2)
const PAUSE_MS = 5
const BOUND_MS = 300_000

/** A page of a feed of so many signals, or one with other prices. */
export type Wanted = { total: number } | { notPriced: string | undefined }
export type Found = { version: string | undefined; at: number }

type Answer = { pricing_version?: string; pagination?: { total_count?: number } }

const ask = () => callTool<Answer>(url, 'get_signals', { discovery_mode: 'wholesale' }, token)

const isFound = ({ pricing_version: version, pagination }: Answer, wanted: Wanted) =>
  'total' in wanted ? pagination?.total_count === wanted.total : version !== wanted.notPriced

async function find(wanted: Wanted): Promise<Found> {
  for (const end = Date.now() + BOUND_MS; ; ) {
    const answer = await ask()
    if (isFound(answer, wanted)) return { version: answer.pricing_version, at: Date.now() }
    if (Date.now() > end) throw new Error(`never served: ${JSON.stringify(wanted)}`)
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
}

process.on('message', async (wanted: Wanted) => void process.send?.(await find(wanted)))
