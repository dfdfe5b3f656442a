/**
 * What was learnt of an agent with a credential survives the process: its transport and dialect in one blob per agent, and in another
 * whether its prices are for that credential alone, which processes with one storage tell each other so. Written when something new
 * is learnt. A blob that cannot be read counts as missing: the agent is asked again.
 */
import { isRecord, tryParseJson } from '../../adcp/json.js'
import type { Protocol } from '../agent/agent.js'
import type { Dialect } from '../agent/dialect.js'
import type { ToolInput, ToolInputs } from '../agent/tool-list.js'
import type { Blobs } from '../rows/storage.js'

const FORMAT = 1
const PREFIX = 'dialect/'
const PRICES = 'prices/'

type Learnt = {
  dialect: Dialect
  protocol?: Protocol
  /** Names the credential. */
  credential: string
  /** Ms since the epoch. */
  readAt: number
}

/** Whether an agent's prices are for the credential (its name) that asks. */
type LearntPrices = { credential: string; areForAccount: boolean }

type StoredInput = Omit<ToolInput, 'names' | 'texts'> & { names: string[]; texts: string[] }

function stored([name, input]: [string, ToolInput]): [string, StoredInput] {
  return [name, { ...input, names: [...input.names], texts: [...input.texts] }]
}

function revived([name, input]: [string, StoredInput]): [string, ToolInput] {
  return [name, { ...input, names: new Set(input.names), texts: new Set(input.texts) }]
}

function encode({ dialect: { tools, ...dialect }, ...rest }: Learnt): Uint8Array {
  const record = { format: FORMAT, ...rest, dialect, ...(tools && { tools: [...tools].map(stored) }) }
  return Buffer.from(JSON.stringify(record))
}

function decode(bytes: Uint8Array): Learnt | undefined {
  const record = tryParseJson(bytes)
  if (!isRecord(record) || record.format !== FORMAT) return undefined
  const { format: _, tools, dialect, ...rest } = record
  const inputs: ToolInputs | undefined = Array.isArray(tools) ? new Map(tools.map(revived)) : undefined
  return { ...rest, dialect: { ...(dialect as object), ...(inputs && { tools: inputs }) } } as Learnt
}

function decodePrices(bytes: Uint8Array): LearntPrices | undefined {
  const record = tryParseJson(bytes)
  return isRecord(record) ? (record as LearntPrices) : undefined
}

type LearntStoreOptions = {
  blobs: Blobs
  /** Other processes learn as well: what this one knows may not be the latest. */
  isShared?: boolean
  /** Receives messages about what could not be read or written; the agent is asked again after a restart. */
  onTrouble(message: string): void
}

/** Writes in the background; what cannot be written is told to `onTrouble`. */
export function createLearntStore({ blobs, isShared = false, onTrouble }: LearntStoreOptions) {
  const prices = new Map<string, LearntPrices | undefined>() // by agent, as last read or written
  let last: Promise<void> = Promise.resolve() // one write at a time: they are small and seldom

  function enqueue(agentUrl: string, task: () => Promise<void>): void {
    last = last
      .then(task)
      .catch((error: Error) =>
        onTrouble(`what was learnt of ${agentUrl} could not be saved: ${error.message}`),
      )
  }

  async function read<T>(
    agentUrl: string,
    prefix: string,
    by: (bytes: Uint8Array) => T,
  ): Promise<T | undefined> {
    try {
      const [bytes] = (await blobs.read(`${prefix}${agentUrl}`)) ?? []
      return bytes && by(bytes)
    } catch (error) {
      onTrouble(`what was learnt of ${agentUrl} could not be read: ${(error as Error).message}`)
      return undefined
    }
  }

  return {
    /** Never rejects. */
    load: (agentUrl: string): Promise<Learnt | undefined> => read(agentUrl, PREFIX, decode),
    save(agentUrl: string, learnt: Learnt): void {
      enqueue(agentUrl, () => blobs.write(`${PREFIX}${agentUrl}`, [encode(learnt)]))
    },
    /** The latest of all processes. Never rejects: without the storage, what this process knows. */
    async loadPrices(agentUrl: string): Promise<LearntPrices | undefined> {
      if (isShared || !prices.has(agentUrl)) {
        await last // what this process learnt is not read over
        const found = await read(agentUrl, PRICES, decodePrices)
        if (found || !prices.has(agentUrl)) prices.set(agentUrl, found)
      }
      return prices.get(agentUrl)
    },
    savePrices(agentUrl: string, learnt: LearntPrices): void {
      prices.set(agentUrl, learnt)
      const bytes = Buffer.from(JSON.stringify(learnt))
      enqueue(agentUrl, () => blobs.write(`${PRICES}${agentUrl}`, [bytes]))
    },
    /** Forgets agents that nobody lists any more. */
    async sweep(isKnown: (agentUrl: string) => boolean): Promise<void> {
      for (const agentUrl of prices.keys()) if (!isKnown(agentUrl)) prices.delete(agentUrl)
      for (const prefix of [PREFIX, PRICES]) {
        for (const name of await blobs.list(prefix)) {
          const agentUrl = name.slice(prefix.length)
          if (!isKnown(agentUrl)) enqueue(agentUrl, () => blobs.remove(name))
        }
      }
    },
    close: (): Promise<void> => last,
  }
}

export type LearntStore = ReturnType<typeof createLearntStore>
