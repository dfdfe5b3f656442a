/**
 * Which tools or skills each upstream offers: asked seldom, a few upstreams at a time, and only when somebody reads the listing.
 */
import pLimit from 'p-limit'
import { shownUrl } from '../../adcp/redaction.js'
import type { Send } from '../../net/send.js'
import { createRecent } from '../../process/memory.js'
import { createA2aAgent } from '../../upstreams/agent/a2a.js'
import { type Protocol, secretsOf } from '../../upstreams/agent/agent.js'
import { createMcpAgent } from '../../upstreams/agent/mcp.js'
import type { RosterEntry } from '../../upstreams/roster/roster.js'
import { placesOf } from '../../upstreams/rows/registry-records.js'
import type { Tool } from './listed-agents.js'

const CONCURRENCY = 4 // questions to upstreams
const TOOLS_FRESH_MS = 60 * 60_000
const TOOLS_TIMEOUT_MS = 10_000
const MAX_AGENTS = 10_000

/** Where an upstream is called, as its status shows it, and what it speaks there. */
type Called = { url: string; protocol: Protocol }

/** Asks nobody before its first `update`. A failed upstream is asked again later; nothing else depends on it. */
export function createToolSurvey({ send, now }: { send: Send; now(): number }) {
  const known = createRecent<{ tools: readonly Tool[] | undefined; at: number }>(MAX_AGENTS)
  const asking = new Map<string, Promise<void>>()
  const limit = pLimit(CONCURRENCY)

  async function ask(entry: RosterEntry, { url: shown, protocol }: Called): Promise<Tool[] | undefined> {
    const { auth } = entry
    const url = placesOf(entry).find((place) => shownUrl(place) === shown) ?? entry.url
    const bounds = () => ({ secrets: placesOf(entry).flatMap((place) => secretsOf(auth, place)) })
    const agent = (protocol === 'mcp' ? createMcpAgent : createA2aAgent)({ send, url, auth, bounds })
    const found = await agent.tools({ timeoutMs: TOOLS_TIMEOUT_MS })
    if (found.kind === 'failed') return undefined
    return found.tools?.map(({ name, description }) => ({ name, description }))
  }

  async function refresh(entry: RosterEntry, called: Called): Promise<void> {
    const tools = (await ask(entry, called)) ?? known.get(entry.agentUrl)?.tools
    known.set(entry.agentUrl, { tools, at: now() })
  }

  return {
    /** Resolves when the tools of the upstream are up to date or could not be read; `tools` then gives them. */
    async update(entry: RosterEntry, called: Called): Promise<void> {
      const held = known.get(entry.agentUrl)
      if (held && now() - held.at < TOOLS_FRESH_MS) return
      const under =
        asking.get(entry.agentUrl) ??
        limit(() => refresh(entry, called)).finally(() => asking.delete(entry.agentUrl))
      asking.set(entry.agentUrl, under)
      await under
    },
    tools: (agentUrl: string) => known.get(agentUrl)?.tools,
  }
}
