/**
 * What the registries list for a question of somebody who asks us. It is cached briefly and bounded: one request per registry and
 * question a minute, late answers go to the cache, and for a registry that fails its last answer is used.
 */
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import pLimit from 'p-limit'
import type { Send } from '../../net/send.js'
import { directoryIn } from '../../upstreams/agent/readers.js'
import type { Directory } from '../../upstreams/rows/directory.js'

const FRESH_MS = 60_000
const PARTIAL_FRESH_MS = 1_000 // a federated registry that says it is incomplete may know more in a moment
const KEPT_MS = 60 * 60_000
const WAIT_MS = 3_000 // for a first answer; then the listing goes out without it
const TIMEOUT_MS = 15_000
const MAX_BYTES = 32 * 1024 * 1024
const MAX_CACHED_BYTES = 64 * 1024 * 1024
const MAX_LISTED_BYTES = 8 * 1024 * 1024 // for a question, in equal shares of all registries
const MAX_QUESTIONS = 200
const CONCURRENCY = 4 // questions to registries

type ListingRegistry = { url: string; headers?: Readonly<Record<string, string>> }

export type ListingsFound = {
  /** In the order of the registries. */
  answers: readonly { source: string; directory: Directory }[]
  /** How many registries have not answered this question lately. */
  silent: number
}

type Answer = { directory: Directory; etag?: string; at: number }

export type RegistrySourceOptions = {
  registries(): readonly ListingRegistry[]
  /** To registries. */
  send: Send
  now(): number
  /** Resolves after that many milliseconds. */
  pause(ms: number): Promise<void>
}

const freshMs = ({ directory }: Answer) => (directory.isPartial ? PARTIAL_FRESH_MS : FRESH_MS)

export function createRegistrySource({ registries, send, now, pause }: RegistrySourceOptions) {
  /** Names this process in `Via`: two Tributaries that list each other must not ask each other forever. */
  const instance = `tributary-${randomUUID().slice(0, 8)}`
  const answers = new LRUCache<string, Answer>({
    max: MAX_QUESTIONS,
    maxSize: MAX_CACHED_BYTES,
    sizeCalculation: ({ directory }) => directory.size + 1,
  })
  const asking = new Map<string, Promise<void>>()
  const limit = pLimit(CONCURRENCY)
  const closing = new AbortController()

  async function ask(key: string, { url, headers }: ListingRegistry, question: string, via: string) {
    const held = answers.get(key)
    const reply = await send({
      url: `${url}/api/registry/agents${question && `?${question}`}`,
      headers: {
        accept: 'application/json',
        ...headers,
        via: `${via && `${via}, `}1.1 ${instance}`,
        ...(held?.etag && { 'if-none-match': held.etag }),
      },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      redirects: 'same-site',
      signal: closing.signal,
    })
    if (reply.kind === 'failed') return
    if (reply.status === 304 && held) answers.set(key, { ...held, at: now() })
    const room = MAX_LISTED_BYTES / Math.max(1, registries().length)
    const directory = reply.status === 200 ? await directoryIn(url, reply.body, room) : undefined
    if (!directory) return
    const { etag } = reply.headers
    answers.set(key, { directory, at: now(), ...(etag && { etag }) })
  }

  /** One question to one registry is under way only once, however many callers wait for it. */
  function refresh(key: string, registry: ListingRegistry, question: string, via: string): Promise<void> {
    const under = asking.get(key)
    if (under) return under
    const asked = limit(() => ask(key, registry, question, via)).finally(() => asking.delete(key))
    asking.set(key, asked)
    return asked
  }

  async function answerOf(registry: ListingRegistry, question: string, via: string) {
    const key = `${registry.url} ${question}`
    const held = answers.get(key)
    const isFresh = held !== undefined && now() - held.at < freshMs(held)
    if (!isFresh && !via.includes(instance)) {
      const asked = refresh(key, registry, question, via)
      if (!held) await Promise.race([asked, pause(WAIT_MS)])
    }
    const answer = answers.get(key)
    return answer && now() - answer.at < KEPT_MS ? answer.directory : undefined
  }

  return {
    /** Everything that all registries list for the question, in their order. `via` is the asker's header. */
    async find(question: URLSearchParams, via: string): Promise<ListingsFound> {
      const all = registries()
      const found = await Promise.all(all.map((registry) => answerOf(registry, question.toString(), via)))
      return {
        answers: all.flatMap(({ url }, at) => {
          const directory = found[at]
          return directory ? [{ source: url, directory }] : []
        }),
        silent: found.filter((directory) => directory === undefined).length,
      }
    },
    close: () => closing.abort(),
  }
}
