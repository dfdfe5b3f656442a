/**
 * A whole Tributary with a heap of 1 GB among strangers, and what is looked at from outside: whether it lives and
 * answers, what it publishes, how long it stood still, and whether a secret stands in anything that comes out of it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { MAIN } from '../../support/program.js'
import { type Hostile, OTHER, VICTIM } from './corpus.js'
import type { Stop } from './loop-watch.js'
import { GOOD_IDS } from './stranger.js'

const WATCH = new URL('./loop-watch.js', import.meta.url).href
const OPERATOR = 'operator-of-the-hostile-world'

export const secretOf = (name: string, kind: 'token' | 'url' | 'registry') =>
  `planted-${kind}-${hash('sha256', name + kind).slice(0, 16)}`

/** The one lie that is none until the good provider has been read and published. */
export const GONE = 'signals of the good provider are gone'

type Published = {
  signal_ref?: { scope: string; data_provider_domain?: string; signal_id: string }
  ext: { tributary: { offers: { agent_url: string; verdict: string }[] } }
}

function configuration(origin: string, corpus: readonly Hostile[], folder: string) {
  const upstreams = corpus.map(({ name, transport }) => ({
    id: name,
    url: `${origin}/${name}/${transport}?api_key=${secretOf(name, 'url')}`,
    protocol: transport,
    auth: { type: 'bearer', token: secretOf(name, 'token') },
  }))
  return {
    listen: { port: 0 },
    registries: [
      {
        url: origin,
        refresh: '2s',
        headers: { authorization: `Bearer ${secretOf('registry', 'registry')}` },
      },
    ],
    upstreams: [{ id: 'good', url: `${origin}/good/mcp`, protocol: 'mcp' }, ...upstreams],
    defaults: { refresh: '2s', timeout: '10s' },
    authorization: { refresh: '2s' },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { [VICTIM]: origin, [OTHER]: origin } },
    callers: {
      anonymous: 'metadata',
      keys: [{ id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' }],
    },
    storage: { url: `file:${join(folder, 'data')}` },
    sandbox: false,
  }
}

async function delayedMs(pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').catch(() => '0 0 0')
  return Number(text.split(' ')[1]) / 1e6
}

async function filesIn(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return found.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name))
}

/** `onStop`: told of each long stop of its serving thread, with what it was doing; `more`: other settings. */
export async function startAmong(
  origin: string,
  corpus: readonly Hostile[],
  onStop?: (stop: Stop) => void,
  more: object = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-hostile-'))
  const file = join(folder, 'tributary.json')
  await writeFile(file, JSON.stringify({ ...configuration(origin, corpus, folder), ...more }))
  const watch = onStop ? [`--import=${WATCH}`] : []
  const child: ChildProcess = spawn(
    process.execPath,
    ['--max-old-space-size=1024', ...watch, MAIN, 'serve', '--config', file],
    { stdio: ['ignore', 'pipe', 'pipe', ...(onStop ? (['ipc'] as const) : [])] },
  )
  child.on('message', (stop) => onStop?.(stop as Stop))
  let printed = ''
  const hear = (chunk: Buffer) => {
    printed += chunk.toString()
  }
  child.stdout?.on('data', hear)
  child.stderr?.on('data', hear)
  const address = await new Promise<string>((found, gone) => {
    const look = () => {
      const match = /http:\/\/127\.0\.0\.1:\d+/.exec(printed.replaceAll(origin, ''))
      if (match) found(match[0])
    }
    child.stdout?.on('data', look)
    child.once('exit', (code) => gone(new Error(`ended with ${code}: ${printed}`)))
  })
  const ask = async (path: string, init: RequestInit = {}) => {
    const { anybody, ...others } = (init.headers ?? {}) as Record<string, string>
    const headers = { ...(!anybody && { authorization: `Bearer ${OPERATOR}` }), ...others }
    const response = await fetch(`${address}${path}`, {
      ...init,
      headers,
      signal: AbortSignal.timeout(200_000),
    })
    return { status: response.status, text: await response.text() }
  }

  async function page(
    headers: Record<string, string> = {},
    args: object = {},
  ): Promise<{ signals: Published[]; text: string }> {
    const question: RequestInit = {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
        ...headers,
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale', ...args } },
      }),
    }
    // A machine that is busy with others makes the server late: it then asks its callers to come again.
    const end = Date.now() + 60_000
    let { status, text } = await ask('/mcp', question)
    while (status === 503 && Date.now() < end) {
      await wait(200)
      ;({ status, text } = await ask('/mcp', question))
    }
    const answer = JSON.parse(text) as { result: { structuredContent: { signals?: Published[] } } }
    return { signals: answer.result.structuredContent.signals ?? [], text }
  }

  return {
    alive: () => child.exitCode === null && child.signalCode === null,
    pid: child.pid,
    ask,
    page,
    healthy: async () => (await ask('/healthz')).status === 200,
    /**
     * By the process's own watch: the longest stop since its start, how many were longer than 250 ms, and what all took
     * together; `delayedMs`: what other processes took of its main thread (Linux; else 0). Ms.
     */
    async stops(): Promise<{ longestMs: number; long: number; sumMs: number; delayedMs: number }> {
      const { text } = await ask('/metrics')
      const number = (pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? Number.NaN)
      const all = number(/^tributary_loop_stop_seconds_count (\S+)/m)
      const short = number(/^tributary_loop_stop_seconds_bucket\{le="0.25"\} (\S+)/m)
      return {
        longestMs: number(/^tributary_loop_longest_stop_seconds (\S+)/m) * 1_000,
        long: all - short,
        sumMs: number(/^tributary_loop_stop_seconds_sum (\S+)/m) * 1_000,
        delayedMs: await delayedMs(child.pid),
      }
    },
    /** Upstreams that have not answered yet. */
    async starting(): Promise<string[]> {
      const { text } = await ask('/metrics')
      const states = [
        ...text.matchAll(/^tributary_upstream_state\{upstream="([^"]+)",state="starting"\} (\d)/gm),
      ]
      return states.length === 0
        ? ['all']
        : states.flatMap(([, name, is]) => (is === '1' ? [name as string] : []))
    },
    /** What is wrong with what is published: nothing, what is not there, or what a stranger brought about. */
    async lies(): Promise<string[]> {
      const { signals } = await page({}, { filters: { data_providers: [VICTIM] } })
      const own = signals.filter(({ signal_ref: ref }) => ref?.data_provider_domain === VICTIM)
      const missing = GOOD_IDS.filter((id) => !own.some(({ signal_ref: ref }) => ref?.signal_id === id))
      const invented = own.filter(({ signal_ref: ref }) => !GOOD_IDS.includes(ref?.signal_id ?? ''))
      const foreign = own.filter(({ ext }) =>
        ext.tributary.offers.some(({ agent_url, verdict }) =>
          agent_url.includes('/good/') ? verdict !== 'authorized' : verdict === 'authorized',
        ),
      )
      return [
        ...(missing.length > 0 ? [GONE] : []),
        ...invented.map(({ signal_ref: ref }) => `invented ${ref?.signal_id}`),
        ...foreign.map(({ signal_ref: ref }) => `a stranger offers ${ref?.signal_id}`),
      ]
    },
    /** Where a planted secret stands in anything that the process gave out or kept. */
    async leaks(): Promise<string[]> {
      const paths = ['/metrics', '/', '/api/registry/agents', '/explain?ref=good']
      const about = corpus.map(({ name }) => `/explain?ref=${name}`)
      const texts = new Map<string, string>([['stdout and stderr', printed]])
      for (const path of [...paths, ...about]) texts.set(path, (await ask(path)).text)
      texts.set('a page', (await page()).text)
      texts.set('a page for anybody', (await page({ anybody: 'yes' })).text)
      for (const each of await filesIn(join(folder, 'data'))) {
        texts.set(
          each.slice(folder.length),
          (await readFile(each).catch(() => Buffer.alloc(0))).toString('latin1'),
        )
      }
      const planted = corpus.flatMap(({ name }) => [secretOf(name, 'token'), secretOf(name, 'url')])
      const secrets = [...planted, secretOf('registry', 'registry'), OPERATOR]
      return [...texts].flatMap(([where, text]) =>
        secrets.filter((secret) => text.includes(secret)).map((secret) => `${secret} in ${where}`),
      )
    },
    printed: () => printed,
    async close(): Promise<void> {
      const gone = new Promise((resolve) => child.once('exit', resolve))
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM')
        const late = setTimeout(() => child.kill('SIGKILL'), 5_000)
        await gone
        clearTimeout(late)
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export type Among = Awaited<ReturnType<typeof startAmong>>
