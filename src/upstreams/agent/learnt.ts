/**
 * What was learnt of an agent, as it outlives the process: the transport and the dialect, with the credential that they were told to.
 * A record that cannot be read is as good as none: the agent is asked again.
 */
import { isRecord } from '../../adcp/json.js'
import { tryParseJson } from '../rows/json.js'
import type { Protocol } from '../status.js'
import type { Dialect } from './dialect.js'
import type { ToolInput, ToolInputs } from './signatures.js'

const FORMAT = 1

export type Learnt = {
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

export function encodeLearnt({ dialect: { tools, ...dialect }, ...rest }: Learnt): Uint8Array {
  const record = { format: FORMAT, ...rest, dialect, ...(tools && { tools: [...tools].map(stored) }) }
  return Buffer.from(JSON.stringify(record))
}

export function decodeLearnt(bytes: Uint8Array): Learnt | undefined {
  const record = tryParseJson(bytes)
  if (!isRecord(record) || record.format !== FORMAT) return undefined
  const { format: _, tools, dialect, ...rest } = record
  const inputs: ToolInputs | undefined = Array.isArray(tools) ? new Map(tools.map(revived)) : undefined
  return { ...rest, dialect: { ...(dialect as object), ...(inputs && { tools: inputs }) } } as Learnt
}
