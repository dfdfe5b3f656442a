/** A registry and the servers of providers that say and do what a test tells them to. */
import { startHttp } from '../../support/upstream-agent.js'

export const PROVIDERS = ['alpha.example', 'beta.example', 'gamma.example'] as const
export type Provider = (typeof PROVIDERS)[number]
const SIGNAL_IDS = Array.from({ length: 200 }, (_, at) => `s${at}`)

/**
 * What a provider's server answers. `hangs`: nothing until it is told otherwise. `drops`: it closes the connection. `moves`: that
 * the file is another domain's. `gone`: that there is no file.
 */
export type FileMode = 'serves' | 'hangs' | 'drops' | 'fails' | 'forbids' | 'page' | 'moves' | 'gone'

const STATUS: Record<FileMode, number> = {
  ...{ serves: 200, hangs: 200, drops: 200, fails: 503 },
  ...{ forbids: 403, page: 200, moves: 302, gone: 404 },
}

/** One server that stands for all provider domains. */
export async function startProviders(agents: () => readonly string[]) {
  const modes = new Map<string, FileMode>()
  const asked = new Map<string, number>()
  let waiting: (() => void)[] = []

  function file(): string {
    const entries = agents().map((url) => ({
      ...{ url, authorized_for: 'everything', authorization_type: 'signal_ids' },
      signal_ids: SIGNAL_IDS,
    }))
    return JSON.stringify({
      signals: SIGNAL_IDS.map((id) => ({ id, name: id, value_type: 'binary' })),
      authorized_agents: entries,
      last_updated: '2026-11-02T08:00:00Z',
    })
  }

  const running = await startHttp(async (request, response) => {
    const domain = String(request.headers.host).split(':')[0] as string
    asked.set(domain, (asked.get(domain) ?? 0) + 1)
    const mode = () => modes.get(domain) ?? 'serves'
    while (mode() === 'hangs') await new Promise<void>((resolve) => waiting.push(resolve))
    if (mode() === 'drops') return void request.destroy()
    const isFile = mode() === 'serves'
    const type = isFile ? 'application/json' : 'text/html'
    const location = mode() === 'moves' && { location: 'https://elsewhere.example/adagents.json' }
    response.writeHead(STATUS[mode()], { 'content-type': type, ...location })
    response.end(isFile ? file() : '<html>We will be back</html>')
  }, '')

  return {
    running,
    behave(domain: Provider, mode: FileMode): void {
      modes.set(domain, mode)
      for (const go of waiting) go()
      waiting = []
    },
    /** How often its file was asked for. */
    asked: (domain: Provider) => asked.get(domain) ?? 0,
  }
}

export type Registry = Awaited<ReturnType<typeof startRegistry>>
export type ListingMode = 'lists' | 'empty' | 'error' | 'garbage'

export async function startRegistry() {
  let listed: readonly { url: string; name: string }[] = []
  let mode: ListingMode = 'lists'
  let answers = 0
  const running = await startHttp((_request, response) => {
    answers += 1
    if (mode === 'error') return void response.writeHead(503).end()
    const agents = mode === 'empty' ? [] : listed.map((one) => ({ type: 'signals', ...one }))
    response.writeHead(200, { 'content-type': mode === 'garbage' ? 'text/html' : 'application/json' })
    response.end(mode === 'garbage' ? '<html>sorry</html>' : JSON.stringify({ agents }))
  }, '')
  return {
    running,
    url: running.origin,
    list(next: readonly { url: string; name: string }[]) {
      listed = next
    },
    behave(next: ListingMode) {
      mode = next
    },
    answers: () => answers,
  }
}
