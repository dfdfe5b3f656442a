/** Providers of what bench/upstreams-agents.ts sells: one server, which answers for each by the Host header. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const PROVIDERS = 50
const HEAVY_SIGNALS = 220_000
const HEAVY_AGENTS = 6

/** Serves `fileOf(provider, path)`. `hosts`: for `egress.hosts` of a configuration. */
async function serve(fileOf: (provider: number, path: string | undefined) => string | Buffer) {
  const server = createServer((request, response) => {
    const provider = Number(/^provider(\d+)\./.exec(request.headers.host ?? '')?.[1])
    response.writeHead(200, { 'content-type': 'application/json' }).end(fileOf(provider, request.url))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const hosts = Object.fromEntries(
    Array.from({ length: PROVIDERS }, (_, at) => [`provider${at}.example`, origin]),
  )
  return { server, hosts }
}

/** All agents may sell everything: `rows` signals of each of `agents` agents, whose urls are `urls`. */
export function startProviders(urls: readonly string[], rows: number, agents = urls.length) {
  return serve((provider) => {
    const signals = Array.from({ length: agents }, (_, agent) => agent).flatMap((agent) =>
      Array.from({ length: rows }, (_, at) => at)
        .filter((at) => at % PROVIDERS === provider)
        .map((at) => ({
          id: `signal_${agent}_${at}`,
          name: `Auto intenders ${at}`,
          value_type: 'binary',
          tags: ['all'],
        })),
    )
    const authorized_agents = urls.map((url) => ({
      url,
      authorized_for: 'all signals',
      authorization_type: 'signal_tags',
      signal_tags: ['all'],
    }))
    return JSON.stringify({
      signals,
      signal_tags: { all: { name: 'All', description: 'All' } },
      authorized_agents,
    })
  })
}

/** Just under 20 MB of the shortest signals, each granted to some agents: what a file can hold most of. */
export function heaviestFile(urls: readonly string[] = [], ids: readonly string[] = []): string {
  const all = [...ids, ...Array.from({ length: HEAVY_SIGNALS }, (_, i) => `s${i}`)]
  const signals = all.map((id) => ({ id, tags: ['t'] }))
  const agents = [
    ...urls,
    ...Array.from({ length: HEAVY_AGENTS - urls.length }, (_, i) => `https://agent-${i}.example/mcp`),
  ].map((url) => ({
    url,
    authorized_for: 'x',
    authorization_type: 'signal_ids',
    signal_ids: all,
  }))
  return JSON.stringify({ signals, authorized_agents: agents })
}

/** The providers' files point to the heaviest file that is legal there, in which the agent may sell its first signal. */
export function startHeavyProviders(url: string) {
  const file = Buffer.from(heaviestFile([url], ['signal_0_0']))
  const pointer = { authoritative_location: 'https://provider1.example/heavy.json' }
  return serve((_provider, path) => (path === '/heavy.json' ? file : JSON.stringify(pointer)))
}
