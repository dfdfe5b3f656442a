/**
 * What hosts of language models make of the tools over MCP: the Inspector's command line, and the tool readers of two
 * model SDKs. Each lists the tools, keeps every one of them under its name, and calls one.
 */
import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createMCPClient } from '@ai-sdk/mcp'
import { getAllMcpTools, MCPServerStreamableHttp } from '@openai/agents-core'
import { failed, passed } from './outcome.js'

const INSPECTOR = fileURLToPath(
  new URL('./node_modules/@modelcontextprotocol/inspector-cli/build/index.js', import.meta.url),
)
const PAGE = { discovery_mode: 'wholesale', pagination: { max_results: 2 } }
const ENDS_MS = 60_000

async function inspect(url, key, ...args) {
  const given = [url, '--transport', 'http', '--header', `Authorization: Bearer ${key}`, ...args]
  // It looks for its package.json beside the folder that it is started in.
  const child = spawn(process.execPath, [INSPECTOR, ...given], { timeout: ENDS_MS, cwd: dirname(INSPECTOR) })
  let out = ''
  let said = ''
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const code = await new Promise((resolve) => child.on('close', resolve))
  if (code !== 0) throw new Error(`the Inspector ended with ${code}: ${said}`)
  return JSON.parse(out)
}

const INSPECTOR_CLI = {
  name: '@modelcontextprotocol/inspector-cli',
  async open(url, key) {
    return {
      list: async () => (await inspect(url, key, '--method', 'tools/list')).tools.map(({ name }) => name),
      call: async (name, args) => {
        const pairs = Object.entries(args).map(([member, value]) =>
          typeof value === 'string' ? `${member}=${value}` : `${member}=${JSON.stringify(value)}`,
        )
        const named = pairs.length > 0 ? ['--tool-arg', ...pairs] : []
        const given = ['--method', 'tools/call', '--tool-name', name, ...named]
        return (await inspect(url, key, ...given)).structuredContent
      },
      close: async () => {},
    }
  },
}

const AI_SDK = {
  name: '@ai-sdk/mcp',
  async open(url, key) {
    const headers = { authorization: `Bearer ${key}` }
    const client = await createMCPClient({ transport: { type: 'http', url, headers } })
    const tools = await client.tools()
    return {
      list: async () => Object.keys(tools),
      call: async (name, args) =>
        (await tools[name].execute(args, { toolCallId: 'call', messages: [] })).structuredContent,
      close: () => client.close(),
    }
  },
}

const OPENAI_AGENTS = {
  name: '@openai/agents-core',
  async open(url, key) {
    const requestInit = { headers: { authorization: `Bearer ${key}` } }
    const server = new MCPServerStreamableHttp({
      url,
      name: 'tributary',
      requestInit,
      useStructuredContent: true,
    })
    await server.connect()
    const tools = await getAllMcpTools({ mcpServers: [server] })
    return {
      list: async () => tools.map(({ name }) => name),
      call: async (name, args) => {
        const tool = tools.find((one) => one.name === name)
        const said = await tool.invoke({ context: {} }, JSON.stringify(args))
        return [said]
          .flat()
          .map((part) => JSON.parse(part.text ?? part))
          .at(-1)
      },
      close: () => server.close(),
    }
  },
}

/** The tools that are offered, by raw JSON-RPC. */
async function offeredBy(url, key) {
  const headers = { accept: 'application/json', authorization: `Bearer ${key}` }
  const reply = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'mcp-protocol-version': '2025-06-18', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  return (await reply.json()).result.tools.map(({ name }) => name)
}

async function runHost({ name, open }, url, key, offered) {
  const steps = []
  let host
  const work = {
    'every tool is taken, under its name': async () => {
      host = await open(`${url}/mcp`, key)
      const taken = await host.list()
      const missing = offered.filter((tool) => !taken.includes(tool))
      if (missing.length > 0) throw new Error(`it does not have ${missing.join(', ')}`)
    },
    'a call without arguments is answered': async () => {
      const { status } = await host.call('get_adcp_capabilities', {})
      if (status !== 'completed') throw new Error(`status ${status}`)
    },
    'a call with nested arguments is answered': async () => {
      const { status, signals = [] } = await host.call('get_signals', PAGE)
      if (status !== 'completed' || signals.length !== 2)
        throw new Error(`status ${status}, ${signals.length} rows`)
    },
  }
  for (const [step, run] of Object.entries(work)) {
    try {
      await run()
      steps.push(passed(step))
    } catch (error) {
      steps.push(failed(step, error.message))
    }
  }
  await host?.close()
  return { part: 'hosts', release: '3.1', transport: 'mcp', name, steps }
}

export async function runModelHosts(url, key) {
  const offered = await offeredBy(url, key)
  const rows = []
  for (const host of [INSPECTOR_CLI, AI_SDK, OPENAI_AGENTS]) rows.push(await runHost(host, url, key, offered))
  return rows
}
