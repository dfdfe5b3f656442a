/**
 * What is kept of an agent's list of tools, or of the skills on its card: few short words of each, and nothing of the rest, however
 * much it is. Read where the list is parsed, so that the list itself goes no further.
 */
import { isRecord } from '../../adcp/json.js'
import { redacted } from '../../adcp/redaction.js'

const MAX_TOOLS = 200
const MAX_ARGUMENTS = 200
const MAX_NAME = 100
const MAX_DESCRIPTION = 500
const MAX_TEXT = 100_000 // characters of all names together: they are stored
const MAX_WORDS = 10_000 // of a description and examples

/** The arguments of one tool. */
export type ToolInput = {
  readonly names: ReadonlySet<string>
  /** Whether the schema says that nothing else may be sent. */
  readonly isClosed: boolean
  /** Those that are plain texts. */
  readonly texts: ReadonlySet<string>
  /** The largest `max_results` that the schema allows. */
  readonly maxResults?: number
  /** It takes `action: deactivate`: its schema names `action`, or, where it names nothing, its words speak of deactivating. */
  readonly switchesOff: boolean
}

/** By the tool's name. */
export type ToolInputs = ReadonlyMap<string, ToolInput>

/** Without `input`, nothing is known of what it takes. No word of it holds a secret of ours. */
export type ListedTool = {
  readonly name: string
  readonly description: string
  readonly input?: ToolInput
}

/** A text without secrets: they are removed from all of it, since a cut would leave the half of one. */
type Clean = (text: string) => string

/** Skills of an A2A card have no schema: what they take stands in their words. */
function readInput(tool: Record<string, unknown>, clean: Clean): ToolInput | undefined {
  const { description, tags, examples } = tool
  const schema = tool.inputSchema ?? tool.input_schema ?? {}
  if (!isRecord(schema)) return undefined
  const properties = isRecord(schema.properties) ? schema.properties : {}
  const names = Object.keys(properties)
  if (names.length > MAX_ARGUMENTS || names.some((name) => name.length > MAX_NAME)) return undefined
  const isText = (name: string) => isRecord(properties[name]) && properties[name].type === 'string'
  const size = properties.max_results
  const maximum = isRecord(size) ? size.maximum : undefined
  const words = JSON.stringify([description, tags, examples]).slice(0, MAX_WORDS)
  return {
    names: new Set(names.map(clean)),
    isClosed: schema.additionalProperties === false,
    texts: new Set(names.filter(isText).map(clean)),
    ...(typeof maximum === 'number' && maximum >= 1 && { maxResults: Math.floor(maximum) }),
    switchesOff: names.length > 0 ? names.includes('action') : /deactivat/i.test(words),
  }
}

function readTool(tool: Record<string, unknown>, clean: Clean): ListedTool | undefined {
  const name = tool.id ?? tool.name // a skill's name is for people
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME) return undefined
  const { description } = tool
  const input = readInput(tool, clean)
  return {
    name: clean(name),
    description: typeof description === 'string' ? clean(description).slice(0, MAX_DESCRIPTION) : '',
    ...(input && { input }),
  }
}

const sizeOf = ({ name, input }: ListedTool) =>
  [name, ...(input?.names ?? []), ...(input?.texts ?? [])].reduce((sum, { length }) => sum + length, 0)

/**
 * The tools in a list as MCP gives it, or of skills as an A2A card does; undefined when there is no list. Tools beyond what may be
 * stored are as if they were not listed. `secrets`: what the agent was sent.
 */
export function readToolList(list: unknown, secrets: readonly string[] = []): ListedTool[] | undefined {
  if (!Array.isArray(list)) return undefined
  const clean: Clean = (text) => redacted(text, secrets)
  const tools: ListedTool[] = []
  let room = MAX_TEXT
  for (const listed of list.slice(0, MAX_TOOLS)) {
    const tool = isRecord(listed) ? readTool(listed, clean) : undefined
    if (!tool) continue
    room -= sizeOf(tool)
    if (room >= 0) tools.push(tool)
  }
  return tools
}

/** What the tools take, where it is known. */
export function toolInputs(tools: readonly ListedTool[]): ToolInputs {
  return new Map(tools.flatMap(({ name, input }) => (input ? [[name, input] as const] : [])))
}
