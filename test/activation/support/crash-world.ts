/** What a whole Tributary stands on that is killed and started again: a sandbox, the way to its agent, a storage. */
import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { startSandbox } from '../../../sandbox/world.js'
import type { Checkpoint } from '../../../src/activation/delivery.js'
import type { Entry } from '../../../src/store/records/ledger.js'
import type { Storage } from '../../store/support/storages.js'
import { runCommand } from '../../support/command.js'
import { openHeldLine } from './held-line.js'
import { TRADE_DESK } from './parts.js'
import { type Child, type Fields, prepareTributary } from './tributary-child.js'
import { key, openLive } from './world.js'

const DOMAIN = 'signals.northwind.example'
const TOKEN = 'a-buyer-key'
const FOUND_BY_MS = 60_000

export type Request = { idempotency_key: string; action: string } & Record<string, unknown>

/** A sandbox, the way to its agent, and what Tributaries run on that are started one after the other, `starts` in all. */
export async function startCrashWorld(t: Test, storage: Storage, starts: number) {
  const sandbox = await startSandbox({ signals: 48 })
  const { northwind, meridian } = sandbox.agents
  const line = await openHeldLine(sandbox.hosts[DOMAIN] as string)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-crash-'))
  t.teardown(async () => {
    await line.close()
    await sandbox.close()
    await rm(folder, { recursive: true, force: true })
  })
  const configuration = JSON.stringify({
    listen: { port: 0 },
    upstreams: [
      { id: 'northwind', url: northwind.url, protocol: 'mcp' },
      { id: 'meridian', url: meridian.url, protocol: 'mcp' },
    ],
    defaults: { concurrency: 16 }, // requests that are held take their places
    egress: { hosts: { ...sandbox.hosts, [DOMAIN]: line.origin } },
    callers: {
      keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex'), destinations: [TRADE_DESK] }],
    },
    storage: { url: storage.url, key: 'a storage key of the tests, long enough' },
  })
  const file = join(folder, 'config.json')
  await writeFile(file, configuration)
  const store = await openLive(t, storage.url, { whileInUse: true })
  let next = prepare()
  let left = starts

  function prepare() {
    const prepared = prepareTributary(['--no-opt']) // it lives for a second: faster code is not worth compiling
    t.teardown(prepared.kill)
    return prepared
  }

  return {
    line,
    start(hold?: Checkpoint): Child {
      const child = next.run(configuration, TOKEN, hold)
      left -= 1
      if (left > 0) next = prepare()
      return child
    },
    done: () => northwind.activations() + northwind.deactivations(),
    counts: () => [northwind.activations() + meridian.activations(), northwind.deactivations()],
    /** Where replicas share a storage, time ends a dead process's leases. */
    async afterDeath() {
      if (storage.isShared) await store.jobs.endLeases()
    },
    /** The ledger's entries of requests, once none of them is pending. */
    async entriesOf(requests: readonly Request[]): Promise<Entry[]> {
      const read = async ({ idempotency_key: used }: Request) => {
        const [call] = await store.jobs.ofKey('buyer', used)
        return call && (await store.ledger.get(call.id))
      }
      for (const end = Date.now() + 60_000; ; await wait(10)) {
        const entries = (await Promise.all(requests.map(read))).filter((entry) => entry !== undefined)
        if (entries.every(({ outcome }) => outcome !== 'pending') || Date.now() > end) return entries
      }
    },
    /** The whole ledger as an operator exports it. */
    async exported(): Promise<Entry[]> {
      const { out } = await runCommand(['ledger', '--config', file, '--json'])
      return out.split('\n').flatMap((text) => (text === '' ? [] : (JSON.parse(text) as Entry)))
    },
  }
}

async function findingsNow(child: Child, upstream: string): Promise<Record<string, unknown>[]> {
  const { signals } = await child.call('mcp', 'get_signals', {
    discovery_mode: 'wholesale',
    destinations: [TRADE_DESK],
    pagination: { max_results: 100 },
  })
  return signals.flatMap(({ signal_agent_segment_id, pricing_options = [], ext }: Fields) => {
    const offer = ext.tributary.offers.find((one: Fields) => one.upstream === upstream)
    const option = pricing_options.find((one: Fields) =>
      one.pricing_option_id.startsWith(`${offer?.handle}.`),
    )
    if (!offer?.deployments.includes('platform:the-trade-desk') || !option) return []
    return [
      { signal_agent_segment_id, pricing_option_id: option.pricing_option_id, destinations: [TRADE_DESK] },
    ]
  })
}

/**
 * Requests that activate signals at an upstream, as a caller of this Tributary finds them. On a busy machine its feed opens
 * before that upstream was read, or after one was killed that had read it and saved nothing yet: it is asked again until it has them.
 */
export async function findings(child: Child, upstream: string): Promise<Record<string, unknown>[]> {
  for (const end = Date.now() + FOUND_BY_MS; ; await wait(50)) {
    const found = await findingsNow(child, upstream)
    if (found.length > 0) return found
    if (Date.now() > end) throw new Error(`nothing of ${upstream} is found`)
  }
}

export const activate = (request: object): Request => ({
  ...request,
  ...{ action: 'activate', idempotency_key: key() },
})

export function deactivate({ pricing_option_id: _, ...request }: Record<string, unknown>): Request {
  return { ...request, action: 'deactivate', idempotency_key: key() }
}
