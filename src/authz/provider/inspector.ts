/**
 * Reads a provider's file: its bytes become a document with its tables, a pointer to another file, or nothing usable
 * (docs/protocol.md#provider-files; schema adagents.json). New files are read and held ones searched without blocking the thread that
 * serves: small files in place, large ones in a thread, one at a time, with a bound on the memory that reading may use.
 */
import { hash } from 'node:crypto'
import { isRecord, measure } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import { answerJobs, createPool } from '../../process/thread-pool.js'
import { instantOf, makeTables, type RuleTables } from '../rules/tables.js'
import { type Granted, grantedTo, lists, NOTHING_GRANTED, type ProviderState } from '../rules/verdict.js'

const IN_PLACE_BYTES = 128 * 1024 // about 2 ms of scanning, parsing and sorting; a thread costs 70 ms to start
const COPIED_AT_ONCE = 4 * 1024 * 1024
const PARSE_MEMORY_MB = 768 // what is accepted needs less; if not, only the thread ends

/** Deeper than any honest file, and shallow enough that a recursive reader cannot overflow its stack. */
const MAX_DEPTH = 64
/**
 * Ten times as many as 50,000 full definitions have. Parsing 20 MB of brackets would take seconds and half a gigabyte.
 */
const MAX_CONTAINERS = 2_000_000
const MAX_VALIDATOR = 255 // schema adagents.json, catalog_etag

export type Inspection =
  | { kind: 'document'; digest: string; lastUpdated?: number; catalogEtag?: string; tables: RuleTables }
  | { kind: 'pointer'; target: string }
  | { kind: 'bad_pointer'; message: string }
  | { kind: 'invalid'; message: string }

/** A job of the thread: read the bytes, or find what a provider grants to an agent. */
type InspectorJob = { bytes: Uint8Array } | { state: ProviderState; agentUrl: string; nowMs: number }

/** What the body says, and its bytes in shared memory. */
export type Examine = (body: Uint8Array) => Promise<{ inspection: Inspection; bytes: Uint8Array }>

/** What is wrong with the structure of the text, found before a parser allocates anything for it. */
function buildProblem(bytes: Uint8Array): string | undefined {
  const { depth, containers } = measure(bytes)
  if (depth > MAX_DEPTH) return `the file nests deeper than ${MAX_DEPTH} levels`
  return containers > MAX_CONTAINERS
    ? `the file has more than ${MAX_CONTAINERS} lists and objects`
    : undefined
}

/** The parsed text, or what is wrong with it. A byte order mark is accepted, another encoding is not. */
function parsedFile(bytes: Uint8Array): { value: unknown } | { message: string } {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return { message: 'the file is not UTF-8' } // the decoder's message names no cause
  }
  try {
    return { value: JSON.parse(text) }
  } catch {
    // The parser's message quotes the file, so it is not used: our messages hold no untrusted text.
    return {
      message: text.trimStart().startsWith('<') ? 'the file is HTML, not JSON' : 'the file is not JSON',
    }
  }
}

/** A pointer is followed only to an absolute https url. */
function pointerTo(location: unknown, field: string): Inspection {
  const target = typeof location === 'string' ? canonicalUrl(location) : undefined
  if (target?.startsWith('https://')) return { kind: 'pointer', target }
  return { kind: 'bad_pointer', message: `${field} is not an https url` }
}

function validatorText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_VALIDATOR ? value : undefined
}

/** What the bytes say. Pure; accepts any bytes, in linear time. */
export function inspect(bytes: Uint8Array): Inspection {
  const problem = buildProblem(bytes)
  if (problem) return { kind: 'invalid', message: problem }
  const parsed = parsedFile(bytes)
  if ('message' in parsed) return { kind: 'invalid', message: parsed.message }
  const file = parsed.value
  if (!isRecord(file)) return { kind: 'invalid', message: 'the file is not a JSON object' }
  if (file.authoritative_location != null) {
    return pointerTo(file.authoritative_location, 'authoritative_location')
  }
  // A superseded file asks not to be used any more and names its successor, which is used.
  if (file.superseded_by != null) return pointerTo(file.superseded_by, 'superseded_by')
  const { authorized_agents } = file
  if (!Array.isArray(authorized_agents)) {
    return { kind: 'invalid', message: 'authorized_agents is not an array' }
  }
  return {
    kind: 'document',
    digest: hash('sha256', bytes, 'base64url'),
    lastUpdated: instantOf(file.last_updated),
    catalogEtag: validatorText(file.catalog_etag),
    tables: makeTables({ ...file, authorized_agents }, bytes),
  }
}

/** Copies the bytes to shared memory. New memory is slow at first use, so the copy yields to other work in between. */
async function shared(body: Uint8Array): Promise<Uint8Array> {
  const bytes = new Uint8Array(new SharedArrayBuffer(body.byteLength))
  for (let at = 0; at < body.byteLength; at += COPIED_AT_ONCE) {
    if (at > 0) await nextOwnPortion()
    bytes.set(body.subarray(at, at + COPIED_AT_ONCE), at)
  }
  return bytes
}

/** Its thread starts with the first file that is too large to be read in place. */
export function createInspector() {
  const thread = createPool<InspectorJob, Inspection | Granted>({
    code: new URL('./inspector.js', import.meta.url),
    ...{ size: 1, heapMb: PARSE_MEMORY_MB },
  })

  async function readInThread(bytes: Uint8Array): Promise<Inspection> {
    try {
      return (await thread.run('', { bytes }, [], bytes.byteLength)) as Inspection
    } catch (error) {
      // A file that exhausts the thread cannot be used: this is an outcome, not a bug of ours.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
      return { kind: 'invalid', message: 'the file takes too much memory to read' }
    }
  }

  const examine: Examine = async (body) => {
    const bytes = await shared(body)
    const inspection = bytes.byteLength <= IN_PLACE_BYTES ? inspect(bytes) : await readInThread(bytes)
    return { inspection, bytes }
  }

  /**
   * What a provider grants to an agent (canonical url). Small files are read in turns, too, so that other work runs in
   * between.
   */
  async function granted(state: ProviderState, agentUrl: string, nowMs: number): Promise<Granted> {
    if (!state.document || !lists(state, agentUrl)) return NOTHING_GRANTED
    if (state.document.bytes.byteLength > IN_PLACE_BYTES) {
      return (await thread.run('', { state, agentUrl, nowMs }, [], 0)) as Granted
    }
    await nextOwnPortion()
    return grantedTo(state, agentUrl, nowMs)
  }

  /** `close` ends the thread; open jobs reject. */
  return { examine, granted, close: thread.close }
}

answerJobs(import.meta.url, (job: InspectorJob) =>
  'state' in job ? grantedTo(job.state, job.agentUrl, job.nowMs) : inspect(job.bytes),
)
