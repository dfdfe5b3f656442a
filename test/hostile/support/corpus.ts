/**
 * Answers of strangers who mean harm: each was once, or could be, the end of a process, a lie in the feed or a secret in a
 * log. They are played by `hostile-answers.slow.test.ts`, mutated by `npm run fuzz` and timed by `bench/hostile.ts`.
 */
import { gzipSync } from 'node:zlib'
import { row } from '../../support/upstream-world.js'

export type Told = {
  status?: number
  headers?: Record<string, string>
  body: string | Buffer
  /** The body is sent in chunks of one byte (RFC 9112, 7.1), with no more than so many bytes. */
  crumbs?: number
}
/** What the stranger has seen: the id of the request, and what it was shown. */
export type Seen = { id: unknown; shown: string; cursor: string | undefined }
export type Hostile = {
  name: string
  transport: 'mcp' | 'a2a'
  /** The answer to the reading of its signals. */
  answer(seen: Seen): Told
  /** The answer to everything before that, where it is not an honest one. */
  before?(seen: Seen): Told
}

/** In every text of a hostile row: nothing that holds it may be published as another's. */
export const MARK = 'written by a stranger'
export const VICTIM = 'good.example'
/** A provider whose word may be anything. */
export const OTHER = 'other.example'

const JSON_TYPE = { 'content-type': 'application/json' }
const MiB = 1024 * 1024

const packed = new Map<string, Buffer>()

/** `size` bytes of `unit` between `head` and `tail`, compressed: some thirty kilobytes on the wire. */
function gzipped(head: string, unit: string, tail: string, size: number): Buffer {
  const key = JSON.stringify([head, unit, tail, size])
  const made = packed.get(key) ?? gzipSync(head + unit.repeat(Math.floor(size / unit.length)) + tail)
  packed.set(key, made)
  return made
}

const bomb = (head: string, unit: string, tail: string, size: number, type = JSON_TYPE): Told => ({
  headers: { ...type, 'content-encoding': 'gzip' },
  body: gzipped(head, unit, tail, size),
})

const result = ({ id }: Seen, payload: string): Told => ({
  headers: JSON_TYPE,
  body: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"structuredContent":${payload}}}`,
})

const victimRef = (id: string) =>
  `{"scope":"data_provider","data_provider_domain":"${VICTIM}","signal_id":"${id}"}`
const ownRow = (at: number) =>
  JSON.stringify(row(at, { signal_ref: undefined, signal_type: 'owned', name: MARK, description: MARK }))
const rows = (...each: string[]) => `{"signals":[${each.join()}],"wholesale_feed_version":"v1"}`
const opening = (seen: Seen) =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(seen.id)},"result":{"structuredContent":`

const SSE = { 'content-type': 'text/event-stream' }
const mcp = (name: string, answer: Hostile['answer']): Hostile => ({ name, transport: 'mcp', answer })

/** `size`: bytes that a bomb unpacks to; the default is just under what we take of one answer. */
export const corpusOf = (size = 31 * MiB): readonly Hostile[] => [
  mcp('sixteen-million-elements', (seen) => bomb(`${opening(seen)}{"signals":[1`, ',1', ']}}}', size)),
  mcp('five-million-objects', (seen) => bomb(`${opening(seen)}{"signals":[{}`, ',{"a":1}', ']}}}', size)),
  mcp('elements-elsewhere', (seen) =>
    bomb(`${opening(seen)}{"signals":[],"incomplete":[1`, ',1', ']}}}', size),
  ),
  mcp('lists-in-lists', (seen) => bomb(`${opening(seen)}{"signals":[`, '[', '', size)),
  mcp('members-without-end', (seen) =>
    bomb(`${opening(seen)}{"signals":[],"x":{"a":1`, ',"a":1', '}}}}', size),
  ),
  mcp('one-long-text', (seen) => bomb(`${opening(seen)}{"signals":[{"name":"`, 'a', '"}]}}}', size)),
  mcp('escapes', (seen) => bomb(`${opening(seen)}{"signals":[{"name":"`, '\\u0061', '"}]}}}', size)),
  mcp('a-text-of-rows', (seen) =>
    bomb(
      `{"jsonrpc":"2.0","id":${JSON.stringify(seen.id)},"result":{"content":[{"type":"text","text":"{\\"signals\\":[1`,
      ',1',
      ']}"}]}}',
      size,
    ),
  ),
  mcp('a-long-message', (seen) => bomb(`${opening(seen)}{"signals":[],"message":"`, 'x', '"}}}', size)),
  mcp('a-long-message-in-escapes', (seen) =>
    bomb(`${opening(seen)}{"signals":[],"errors":["`, '\\"', '"]}}}', size),
  ),
  mcp('an-event-of-quotes', () => bomb('data: ', '"', '\n\n', size, SSE)),
  mcp('carriage-returns', () => bomb('', '\r', '', size, SSE)),
  mcp('broken-events', () => bomb('', 'data: {"id"\n\n', '', size, SSE)),
  mcp('half-answers', () => ({ headers: SSE, body: 'data: {"id":1,"result":\n\n'.repeat(10_000) })),
  mcp('empty-data-lines', () => bomb('', 'data\n', '', size, SSE)),
  mcp('a-bomb-as-an-event', (seen) =>
    bomb(`data: ${opening(seen)}{"signals":[1`, ',1', ']}}}\n\n', size, SSE),
  ),
  mcp('beyond-the-bound', () => bomb('', ' ', '', 2 * size)),
  mcp('crumbs', () => ({ headers: JSON_TYPE, body: ' ', crumbs: size })),
  mcp('crumbs-of-an-event', () => ({ headers: SSE, body: 'data: ', crumbs: size })),
  mcp('broken-gzip', () => ({ headers: { ...JSON_TYPE, 'content-encoding': 'gzip' }, body: 'no gzip' })),
  mcp('unknown-encoding', () => ({ headers: { ...JSON_TYPE, 'content-encoding': 'br, gzip' }, body: 'x' })),
  mcp('two-references', (seen) =>
    result(
      seen,
      rows(
        ...['a', 'b', 'c'].map((id) =>
          ownRow(1)
            .replace('{', `{"signal_ref":${victimRef(id)},`)
            .replace(/}$/, `,"signal_ref":${victimRef('x')}}`),
        ),
      ),
    ),
  ),
  mcp('a-reference-in-escapes', (seen) =>
    result(
      seen,
      rows(ownRow(1).replace('{', `{"signal_ref":${victimRef('a')},"\\u0073ignal_ref":${victimRef('b')},`)),
    ),
  ),
  mcp('somebody-elses-signals', (seen) =>
    result(
      seen,
      rows(...['a', 'b'].map((id, at) => ownRow(at).replace('{', `{"signal_ref":${victimRef(id)},`))),
    ),
  ),
  mcp('prototypes', (seen) =>
    result(
      seen,
      rows(ownRow(1).replace('{', '{"__proto__":{"isAdmin":true},"constructor":{"prototype":1},')),
    ),
  ),
  mcp('half-pairs-and-zeros', (seen) =>
    result(seen, rows(ownRow(1).replace(MARK, '\\ud800'), ownRow(2).replace(MARK, '\\u0000'), ownRow(3))),
  ),
  mcp('huge-numbers', (seen) =>
    result(
      seen,
      rows(
        ownRow(1).replace('"cpm":2', '"cpm":1e999'),
        ownRow(2).replace('"cpm":2', `"cpm":${'9'.repeat(400)}`),
      ),
    ),
  ),
  mcp('the-credential-in-an-error', (seen) =>
    result(
      seen,
      JSON.stringify({
        adcp_error: { code: 'AUTH_INVALID', message: seen.shown, details: { at: seen.shown } },
      }),
    ),
  ),
  mcp('the-credential-in-a-row', (seen) =>
    result(
      seen,
      rows(JSON.stringify(row(1, { signal_ref: undefined, name: MARK, description: seen.shown })), ownRow(2)),
    ),
  ),
  mcp('the-credential-in-an-rpc-error', (seen) => ({
    headers: JSON_TYPE,
    body: JSON.stringify({ jsonrpc: '2.0', id: seen.id, error: { code: -32000, message: seen.shown } }),
  })),
  mcp('an-error-of-tokens', (seen) =>
    result(
      seen,
      JSON.stringify({
        adcp_error: { code: 'AUTH_INVALID', message: MARK, details: { at: '-token'.repeat(1_300) } },
      }),
    ),
  ),
  mcp('wide-characters', (seen) => ({
    headers: { 'content-type': 'application/json; charset=utf-16' },
    body: result(seen, rows(ownRow(1))).body,
  })),
  mcp('a-redirect-with-the-credential', (seen) => ({
    status: 307,
    headers: { location: `/elsewhere?token=${encodeURIComponent(seen.shown)}` },
    body: '',
  })),
  {
    ...mcp('a-bomb-for-a-handshake', (seen) => result(seen, rows())),
    before: (seen) => bomb(`${opening(seen)}{"adcp":[1`, ',1', ']}}}', size),
  },
  {
    name: 'a-bomb-as-a-task',
    transport: 'a2a',
    answer: (seen) =>
      bomb(
        `{"jsonrpc":"2.0","id":${JSON.stringify(seen.id)},"result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"data":{"signals":[1`,
        ',1',
        ']}}]}]}}}',
        size,
      ),
  },
  {
    name: 'a-card-of-lists',
    transport: 'a2a',
    answer: (seen) => result(seen, rows()),
    before: () => bomb('{"name":"x","skills":[', '[],', '[]]}', MiB - 100),
  },
]
