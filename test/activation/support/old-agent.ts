/** An agent of before 3.0 over real HTTP: no capabilities, no idempotency keys, no accounts; it cuts, hangs or answers. */
import { type RunningAgent, readJson, startHttp } from '../../support/upstream-agent.js'

export type OldAgent = RunningAgent & {
  /** Activations that it carried out. */
  done(): number
  behave(how: {
    answers: 'yes' | 'cut' | 'late' | 'submitted' | 'submitted without a task'
    acts: boolean
    /** What it says of its task. */
    task?: object
    /** What it says as it begins to work on it. */
    first?: object
    /** Whether its signal shows as live. Default: once it was activated. */
    live?: boolean
  }): void
}

const row = (live: boolean) => ({
  signal_agent_segment_id: 'old_1',
  name: 'Coffee drinkers',
  description: 'People who drink coffee',
  signal_type: 'owned',
  data_provider: 'Old House',
  coverage_percentage: 10,
  deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: live }],
  pricing: { cpm: 2, currency: 'USD' },
})

export async function startOldAgent(): Promise<OldAgent> {
  let done = 0
  let how: Parameters<OldAgent['behave']>[0] = { answers: 'yes', acts: true }

  const running = await startHttp(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const body = (await readJson(request)) as { id?: number; method: string; params?: { name?: string } }
    const reply = (result: unknown) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }))
    }
    const said = (payload: object) => reply({ content: [], structuredContent: payload })
    if (body.method === 'initialize') {
      const serverInfo = { name: 'old', version: '1' }
      return reply({ protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo })
    }
    if (body.id === undefined) return void response.writeHead(202).end()
    if (body.method === 'tools/list') {
      return reply({ tools: [{ name: 'get_signals', inputSchema: { type: 'object' } }] })
    }
    if (body.params?.name === 'get_task_status') return said({ task_id: 'old_task', ...how.task })
    if (body.params?.name === 'get_signals') return said({ signals: [row(how.live ?? done > 0)] })
    if (body.params?.name !== 'activate_signal') {
      return reply({ isError: true, content: [{ type: 'text', text: 'Unknown tool' }] })
    }
    if (how.acts) done += 1
    if (how.answers === 'cut') return void request.socket.destroy()
    if (how.answers === 'late') return
    if (how.answers === 'submitted') return said({ status: 'submitted', task_id: 'old_task', ...how.first })
    if (how.answers === 'submitted without a task') return said({ status: 'submitted' })
    said({ deployments: row(true).deployments })
  })
  return {
    ...running,
    done: () => done,
    behave: (next) => {
      how = next
    },
  }
}
