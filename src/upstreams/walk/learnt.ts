/**
 * What was learnt of an agent, its transport and dialect with the credential that they were found with, survives the process: one
 * blob per agent, written when something new is learnt. A blob that cannot be read counts as missing: the agent is asked again.
 */
import { isRecord, tryParseJson } from '../../adcp/json.js'
import type { Protocol } from '../agent/agent.js'
import type { Dialect } from '../agent/dialect.js'
import type { ToolInput, ToolInputs } from '../agent/tool-inputs.js'
import type { Blobs } from '../rows/storage.js'

const FORMAT = 1
const PREFIX = 'dialect/'

type Learnt = {
  dialect: Dialect
  protocol?: Protocol
  /** Names the credential. */
  credential: string
  /** Ms since the epoch. */
  readAt: number
}

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

type LearntStoreOptions = {
  blobs: Blobs
  /** Receives messages about what could not be read or written; the agent is asked again after a restart. */
  onTrouble(message: string): void
}

/** Writes in the background; what cannot be written is told to `onTrouble`. */
export function createLearntStore({ blobs, onTrouble }: LearntStoreOptions) {
  let last: Promise<void> = Promise.resolve() // one write at a time: they are small and seldom

  function enqueue(agentUrl: string, task: () => Promise<void>): void {
    last = last
      .then(task)
      .catch((error: Error) =>
        onTrouble(`what was learnt of ${agentUrl} could not be saved: ${error.message}`),
      )
  }

  return {
    /** Never rejects. */
    async load(agentUrl: string): Promise<Learnt | undefined> {
      try {
        const [bytes] = (await blobs.read(`${PREFIX}${agentUrl}`)) ?? []
        return bytes && decode(bytes)
      } catch (error) {
        onTrouble(`what was learnt of ${agentUrl} could not be read: ${(error as Error).message}`)
        return undefined
      }
    },
    save(agentUrl: string, learnt: Learnt): void {
      enqueue(agentUrl, () => blobs.write(`${PREFIX}${agentUrl}`, [encode(learnt)]))
    },
    /** Forgets agents that nobody lists any more. */
    async sweep(isKnown: (agentUrl: string) => boolean): Promise<void> {
      for (const name of await blobs.list(PREFIX)) {
        const agentUrl = name.slice(PREFIX.length)
        if (!isKnown(agentUrl)) enqueue(agentUrl, () => blobs.remove(name))
      }
    },
    close: (): Promise<void> => last,
  }
}

export type LearntStore = ReturnType<typeof createLearntStore>
