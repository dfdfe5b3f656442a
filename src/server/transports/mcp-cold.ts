/**
 * Everything of MCP that is not a tool call: initialize, tools/list, ping, unknown methods. The official server
 * answers them, one instance a message and nothing kept (docs/protocol.md#mcp: stateless), over a transport in
 * memory: HTTP is `mcp.ts`'s business. The validator is shared, because making one is most of what a server costs
 * (docs/decisions.md#serving-from-bytes).
 *
 * The tool list shows of a task's schema what a model needs to write arguments, and is short, because a host puts the list of
 * every server into each prompt. Bounds that only abuse meets are left out; the task checks them all the same.
 */
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  ListToolsRequestSchema,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { AccountReference, Brand } from '../../adcp/caller.js'
import { isRecord } from '../../adcp/json.js'
import type { TSchema } from '../../adcp/schema.js'
import { BusinessEntity, ListedProtocol, TaskType } from '../../adcp/task-schemas.js'
import { createRecent } from '../../process/memory.js'
import type { Task } from '../../tasks/task.js'
import { INTERNAL_ERROR, INVALID_PARAMS, type RpcRest, rpcRest } from '../answer/json-rpc.js'

const BOUNDS = new Set([
  ...['maxLength', 'maxItems', 'minLength', 'uniqueItems', 'minItems'],
  ...['default', 'additionalProperties'],
])
const LONGEST_PATTERN = 30
const REMEMBERED = 100
const LONGEST_REMEMBERED = 1_000 // characters of a question
/** Members of every request that do not concern a model: listed, so that no client drops them, and not explained. */
const ENVELOPE: Readonly<Record<string, object>> = {
  adcp_version: { type: 'string' },
  adcp_major_version: { type: 'integer' },
  context: { type: 'object' },
  context_id: { type: 'string' },
  ext: { type: 'object' },
}

/** What a sentence says better than its schema, by the schema's text. */
const SENTENCES = new Map<string, object>([
  [
    JSON.stringify(AccountReference),
    {
      type: 'object',
      description: 'Yours: {account_id} as in list_accounts, or {brand: {domain}, operator}.',
    },
  ],
  [JSON.stringify(Brand), { type: 'object', description: '{domain, brand_id}' }],
  [
    JSON.stringify(BusinessEntity),
    {
      type: 'object',
      description: 'Who pays: legal_name, vat_id ...',
    },
  ],
])

/** Lists of words that are longer than their use; a wrong word is told with those that are near. */
for (const words of [ListedProtocol, TaskType]) SENTENCES.set(JSON.stringify(words), { type: 'string' })

const jsonSchemaValidator = new AjvJsonSchemaValidator()

const INSTRUCTIONS =
  'Tributary offers the signals of many signals agents as one feed: each signal once, with every verified way to buy ' +
  'it. Start with get_adcp_capabilities. Read the feed with get_signals and discovery_mode "wholesale".'

type ToolSchema = { type: 'object'; properties: Record<string, object>; required?: string[] }

type McpColdOptions = {
  tasks: readonly Task[]
  version: string
}

/** `anyOf` constants as one `enum`. */
function enumOf(branches: unknown): unknown[] | undefined {
  if (!Array.isArray(branches)) return undefined
  const constants = branches.map((branch) => (isRecord(branch) ? branch.const : undefined))
  return constants.every((constant) => typeof constant === 'string') ? constants : undefined
}

/** `anyOf` a type and null as one list of types. */
function nullable(branches: unknown): unknown[] | undefined {
  if (!Array.isArray(branches) || branches.length !== 2) return undefined
  const types = branches.map((branch) => (isRecord(branch) ? branch.type : undefined))
  return types[0] === 'string' && types[1] === 'null' ? types : undefined
}

function shortProperties(properties: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, schema]) => {
      const { deprecated, type, not } = schema as { deprecated?: boolean; type?: unknown; not?: unknown }
      return not ? [] : [[name, deprecated ? { type, deprecated } : short(schema)]]
    }),
  )
}

function short(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(short)
  if (!isRecord(schema)) return schema
  const sentence = SENTENCES.get(JSON.stringify(schema))
  if (sentence) return sentence
  const { anyOf, ...rest } = schema
  const values = enumOf(anyOf)
  const types = nullable(anyOf)
  const found: Record<string, unknown> = values
    ? { type: 'string', enum: values }
    : types
      ? { type: types }
      : {}
  for (const [name, value] of Object.entries(values || types ? rest : schema)) {
    if (
      BOUNDS.has(name) ||
      (name === 'type' && 'const' in schema) ||
      (name === 'pattern' && String(value).length > LONGEST_PATTERN)
    )
      continue
    if (name === 'properties' && isRecord(value)) {
      if (Object.keys(value).length > 0) found.properties = shortProperties(value)
    } else found[name] = name === 'items' || name === 'anyOf' ? short(value) : value
  }
  return found
}

/** The schema of a tool's arguments or results. */
function toolSchema(schema: TSchema): ToolSchema {
  // A TypeBox schema is JSON Schema with symbols beside it, which do not serialise.
  const plain = short(JSON.parse(JSON.stringify(schema))) as ToolSchema
  const known = Object.fromEntries(
    Object.entries(ENVELOPE).filter(([name]) => plain.properties?.[name] !== undefined),
  )
  return { ...plain, properties: { ...plain.properties, ...known } }
}

function toolsOf({ name, aliases = [], title, description, request, response, ...task }: Task): Tool[] {
  const { mutating, destructive = false } = task
  const about = {
    title,
    inputSchema: toolSchema(request),
    ...(response && { outputSchema: toolSchema(response) }),
    // A repeated idempotency_key has no second effect, so every call may be repeated unchanged.
    annotations: {
      ...{ readOnlyHint: !mutating, destructiveHint: destructive },
      ...{ idempotentHint: true, openWorldHint: false },
    },
  }
  const others = aliases.map((alias) => ({
    name: alias,
    description: `Another name of ${name}, for clients that know it by this one: both do the same.`,
  }))
  return [{ name, description }, ...others].map((tool) => ({ ...tool, ...about }))
}

/** Its rest as bytes, which are written as they are whenever it comes again. */
type McpColdAnswer = Omit<RpcRest, 'rest'> & { rest: Uint8Array }

const UNREADABLE = { code: INVALID_PARAMS, message: 'params are not what the method takes' }

/** `answer`: undefined when the params are none of MCP's. */
function coldAnswer(answer: JSONRPCMessage | undefined): McpColdAnswer {
  const { result, error } = (answer ?? { error: UNREADABLE }) as { result?: object; error?: { code: number } }
  // The official server says "internal error" of params that it cannot read, and has nothing else that fails.
  const fault = error?.code === INTERNAL_ERROR ? UNREADABLE : error
  const made = rpcRest({ result, error: fault })
  return { ...made, rest: Buffer.from(made.rest) }
}

export function createMcpCold({ tasks, version }: McpColdOptions) {
  const tools = tasks.flatMap(toolsOf)
  const remembered = createRecent<McpColdAnswer>(REMEMBERED)

  async function ask(message: object): Promise<JSONRPCMessage | undefined> {
    const request = JSONRPCMessageSchema.safeParse(message)
    if (!request.success) return undefined
    const server = new Server(
      { name: 'tributary', title: 'Tributary', version },
      { capabilities: { tools: {} }, instructions: INSTRUCTIONS, jsonSchemaValidator },
    )
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    try {
      await server.connect(theirs)
      return await new Promise<JSONRPCMessage>((resolve, reject) => {
        ours.onmessage = resolve
        ours.send(request.data).catch(reject)
      })
    } finally {
      await server.close()
    }
  }

  /**
   * The answer to one request. It depends on nothing but the request, and clients ask in the same words each time, so answers
   * are remembered. Others wait for `turn`.
   */
  async function answer(message: object, turn: () => Promise<void>): Promise<McpColdAnswer> {
    // The official server correlates by id in a Map: any id does, and the caller's own text goes back.
    const request = { ...message, id: 0 }
    const asked = JSON.stringify(request)
    const known = remembered.get(asked)
    if (known) return known
    await turn()
    const made = coldAnswer(await ask(request))
    if (asked.length <= LONGEST_REMEMBERED) remembered.set(asked, made)
    return made
  }

  return { answer }
}

export type McpCold = ReturnType<typeof createMcpCold>
