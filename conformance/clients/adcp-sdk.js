/** What the protocol's own SDK makes of an answer: its verdict on the task, not the wire. */
import { SingleAgentClient } from '@adcp/sdk'

const ADCP_SDK = (transport) => ({
  name: '@adcp/sdk',
  transport,
  async open(url, key) {
    const agent = {
      id: 'tributary',
      name: 'Tributary',
      agent_uri: `${url}/${transport}`,
      protocol: transport,
    }
    const client = new SingleAgentClient({ ...agent, auth_token: key }, { workingTimeout: 1_000 })
    async function ask(task, args) {
      const result = await client.executeTask(task, args, undefined, { timeout: 5_000 })
      const { status, adcpError, submitted, data, error } = result
      const text = error ?? data?.message ?? ''
      return { status, code: adcpError?.code, taskId: submitted?.taskId, text, data }
    }
    return { ask, oneFailure: true, close: async () => {} }
  },
})

export const ADCP_SDK_MCP = ADCP_SDK('mcp')
export const ADCP_SDK_A2A = ADCP_SDK('a2a')
