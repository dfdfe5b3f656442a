/** What the official MCP client makes of an answer; it validates against the outputSchema of the tools that it listed. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export const MCP_SDK = {
  name: '@modelcontextprotocol/sdk',
  transport: 'mcp',
  async open(url, key) {
    const client = new Client({ name: 'conformance', version: '1' })
    const requestInit = { headers: { authorization: `Bearer ${key}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }))
    await client.listTools()
    async function ask(name, args) {
      const { structuredContent: data, isError, content } = await client.callTool({ name, arguments: args })
      if ((isError ?? false) !== (data.adcp_error !== undefined))
        throw new Error(`isError is ${isError} for ${data.status}`)
      return {
        status: data.status,
        code: data.adcp_error?.code,
        taskId: data.task_id,
        text: content[0].text,
        data,
      }
    }
    return { ask, readsText: true, close: () => client.close() }
  },
}
