/**
 * Which tools (MCP) or skills (A2A) each upstream offers, for the registry listing. They are asked seldom, a few
 * upstreams at a time, and only when somebody reads the listing. A failed one is asked again later; nothing else
 * depends on it.
 */
import pLimit from 'p-limit'
import { boundedText, isRecord } from '../adcp/json.js'
import type { Send } from '../net/send.js'
import { createRecent } from '../process/memory.js'
import { createA2aAgent } from './agent/a2a.js'
import type { Protocol } from './agent/agent.js'
import { createMcpAgent } from './agent/mcp.js'
import type { RosterEntry } from './roster/roster.js'

const FRESH_MS = 60 * 60_000
const TIMEOUT_MS = 10_000
const CONCURRENCY = 4
const MAX_AGENTS = 10_000
const MAX_TOOLS = 200
const MAX_NAME = 100
const MAX_DESCRIPTION = 500

export type Tool = { name: string; description: string }

/** Tools as MCP lists them, or skills, whose `id` is the name that a call uses (docs/protocol.md#a2a). */
function readTools(list: unknown): Tool[] | undefined {
  if (!Array.isArray(list)) return undefined
  return list
    .filter(isRecord)
    .slice(0, MAX_TOOLS)
    .flatMap((raw) => {
      const name = boundedText(raw.id ?? raw.name, MAX_NAME)
      return name ? [{ name, description: boundedText(raw.description, MAX_DESCRIPTION) ?? '' }] : []
    })
}

/** Asks nobody before its first `update`. */
export function createToolSurvey({ send, now }: { send: Send; now(): number }) {
  const known = createRecent<{ tools: readonly Tool[] | undefined; at: number }>(MAX_AGENTS)
  const asking = new Map<string, Promise<void>>()
  const limit = pLimit(CONCURRENCY)

  async function ask({ url, auth }: RosterEntry, protocol: Protocol): Promise<Tool[] | undefined> {
    const agent = (protocol === 'mcp' ? createMcpAgent : createA2aAgent)({ send, url, auth })
    return readTools(await agent.tools({ timeoutMs: TIMEOUT_MS }))
  }

  async function refresh(entry: RosterEntry, protocol: Protocol): Promise<void> {
    const tools = (await ask(entry, protocol)) ?? known.get(entry.agentUrl)?.tools
    known.set(entry.agentUrl, { tools, at: now() })
  }

  return {
    /** Resolves when the tools of the upstream are up to date or could not be read; `tools` then gives them. */
    async update(entry: RosterEntry, protocol: Protocol): Promise<void> {
      const held = known.get(entry.agentUrl)
      if (held && now() - held.at < FRESH_MS) return
      const under =
        asking.get(entry.agentUrl) ??
        limit(() => refresh(entry, protocol)).finally(() => asking.delete(entry.agentUrl))
      asking.set(entry.agentUrl, under)
      await under
    },
    tools: (agentUrl: string) => known.get(agentUrl)?.tools,
  }
}

export type ToolSurvey = ReturnType<typeof createToolSurvey>
