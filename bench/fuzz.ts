/**
 * Plays strangers that mean harm against a whole process with a heap of 1 GB, for as long as it is told: every answer of
 * upstreams over MCP and A2A, of a registry and of a provider is mutated, and callers send mutated requests. Says what
 * stopped, fooled or opened it, each with the seed that led there, and exits with 1 when something did.
 *
 * `npm run fuzz -- --minutes 30 --seed 7`
 */
import { gzipSync } from 'node:zlib'
import { corpusOf, OTHER, type Told, VICTIM } from '../test/hostile/support/corpus.js'
import type { Stop } from '../test/hostile/support/loop-watch.js'
import { type Among, startAmong } from '../test/hostile/support/process.js'
import { startStrangers } from '../test/hostile/support/stranger.js'
import { givenOptions, numberOf } from '../test/support/given.js'

const { values } = givenOptions({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Date.now() % 1e6) },
  },
})
const SEED = numberOf(values.seed, '--seed')
const BOMB_BYTES = 31 * 1024 ** 2
const MOST_MS = 250 // a stop beyond it is a finding
const TOLD_MS = 50 // one beyond it is told, with what the thread was doing
const LOOK_MS = 2_000
const SEARCH_EVERY = 10 // looks between two searches for secrets
const BIG_BYTES = 256 * 1024 // what is larger is not mutated byte by byte

/** Equal seeds, equal mutations: of what is asked in the same order. */
function createRandom(seed: number) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (end: number) => Math.floor(next() * end)
  return { next, below, pick: <T>(from: readonly T[]): T => from[below(from.length)] as T }
}

type Random = ReturnType<typeof createRandom>

const ref = (domain: string, id: string) =>
  `"signal_ref":{"scope":"data_provider","data_provider_domain":"${domain}","signal_id":"${id}"}`
const WORDS = [
  ...[ref(VICTIM, 'a'), ref(VICTIM, 'new'), ref(OTHER, 'x'), '"signal_ref":null', '"\\u0073ignal_ref":1'],
  ...[
    '"signals":[',
    '"signals":[[[[',
    '],"signals":[1',
    '"result":',
    '"error":{"code":-32601}',
    '"id":1,',
    '"id":null,',
  ],
  ...[
    '1e999',
    '-1',
    '0.1e-7',
    'null',
    'true',
    '""',
    '{}',
    '[]',
    '{"__proto__":{}}',
    '\\ud800',
    '\\u0000',
    '\u0000',
    '\ufeff',
  ],
  ...[
    '"unchanged":true,',
    '"pagination":{"has_more":true,"cursor":"x"},',
    '"status":"working","task_id":"t",',
    '\r',
    '\r\n',
    '\n\n',
  ],
  ...[
    'data: ',
    'id: 1\n',
    'retry: 0\n',
    'event: x\n',
    '"cache_scope":"account",',
    '"incomplete":[{"scope":"pricing"}],',
  ],
]

function mutatedBytes(body: Buffer, random: Random): Buffer {
  let bytes = body
  for (let times = 1 + random.below(4); times > 0; times--) {
    const [at, to] = [random.below(bytes.length + 1), random.below(bytes.length + 1)]
    const [from, end] = at < to ? [at, to] : [to, at]
    const way = random.below(5)
    if (way === 0)
      bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(random.pick(WORDS)), bytes.subarray(at)])
    else if (way === 1)
      bytes = Buffer.concat([bytes.subarray(0, from), bytes.subarray(Math.min(end, from + 200))])
    else if (way === 2)
      bytes = Buffer.concat([bytes.subarray(0, end), bytes.subarray(Math.max(from, end - 2_000))])
    else if (way === 3)
      bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from([random.below(256)]), bytes.subarray(at + 1)])
    else {
      const unit = Buffer.from(random.pick(WORDS))
      const many = Buffer.alloc(Math.min(64_000, unit.length * 10 ** random.below(5)), unit)
      bytes = Buffer.concat([bytes.subarray(0, at), many, bytes.subarray(at)])
    }
  }
  return bytes
}

const STATUSES = [200, 200, 200, 200, 204, 301, 307, 400, 401, 403, 404, 408, 429, 500, 503]
const TYPES = ['application/json', 'text/event-stream', 'text/html', 'application/json; charset=utf-16', '']

function mutated(told: Told, random: Random): Told {
  const body = Buffer.from(told.body)
  if (random.below(3) === 0) return told
  const isPacked = told.headers?.['content-encoding'] !== undefined
  const changed = body.length > BIG_BYTES || random.below(4) === 0 ? body : mutatedBytes(body, random)
  const headers = { ...told.headers }
  if (random.below(4) === 0) headers['content-type'] = random.pick(TYPES)
  if (random.below(8) === 0) headers['mcp-session-id'] = String(random.below(3))
  if (random.below(8) === 0) headers['retry-after'] = random.pick(['0', '-1', 'x', '99999999999'])
  if (random.below(8) === 0)
    headers.location = random.pick(['/', 'http://127.0.0.1:1/', '//evil.example/', 'file:///etc/passwd'])
  const packs = !isPacked && random.below(4) === 0
  if (packs) headers['content-encoding'] = 'gzip'
  return {
    status: random.below(3) === 0 ? random.pick(STATUSES) : (told.status ?? 200),
    headers,
    body: packs ? gzipSync(changed) : changed,
    ...(told.crumbs && { crumbs: told.crumbs }),
  }
}

const TASKS = [
  'get_signals',
  'activate_signal',
  'get_task_status',
  'list_accounts',
  'sync_accounts',
  'report_usage',
  'x',
]

/** One request of a caller, mutated; what comes back is not looked at. */
async function call(among: Among, random: Random): Promise<void> {
  const name = random.pick(TASKS)
  const args = {
    discovery_mode: 'wholesale',
    filters: { catalog_types: ['marketplace'] },
    signal_spec: 'cars',
    context: { a: 1.0 },
  }
  const isA2a = random.below(3) === 0
  const params = isA2a
    ? { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: name, input: args } }] } }
    : { name, arguments: args }
  const method = isA2a ? random.pick(['SendMessage', 'message/send', 'GetTask', 'tasks/get']) : 'tools/call'
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(random.below(2) === 0 && { anybody: 'yes' }),
    ...(isA2a && { 'a2a-version': random.pick(['1.0', '0.3', '9']) }),
  }
  const changed = random.below(4) === 0 ? body : mutatedBytes(body, random)
  await among
    .ask(isA2a ? '/a2a' : '/mcp', { method: 'POST', headers, body: new Uint8Array(changed) })
    .catch(() => {})
}

const random = createRandom(SEED)
const corpus = corpusOf(BOMB_BYTES)
const findings: string[] = []
const counts = { answers: 0, calls: 0, starts: 0 }
const until = Date.now() + numberOf(values.minutes, '--minutes') * 60_000

function find(what: string): void {
  if (findings.includes(what)) return
  findings.push(what)
  console.log(`FOUND after ${counts.answers} answers, ${counts.calls} calls (seed ${SEED}): ${what}`)
}

const answered: string[] = [] // the newest answers, by name

const strangers = await startStrangers(corpus, (told, name) => {
  counts.answers += 1
  answered.push(name)
  if (answered.length > 8) answered.shift()
  return mutated(told, random)
})

/** The longest stop that was the process's own doing, and the longest of all, ms. */
let [longestOwnMs, longestMs] = [0, 0]
let isUp = false

function tell({ wallMs, ownMs, cpuMs, stacks }: Stop): void {
  if (!isUp) return
  longestOwnMs = Math.max(longestOwnMs, ownMs)
  longestMs = Math.max(longestMs, wallMs)
  if (ownMs > MOST_MS) find(`a stop of ${Math.round(ownMs)} ms`)
  if (ownMs < TOLD_MS) return
  const [wall, own, cpu] = [wallMs, ownMs, cpuMs].map(Math.round)
  console.log(`stop of ${wall} ms, its own ${own}, computed ${cpu}; last answers: ${answered.join(', ')}`)
  for (const stack of stacks) console.log(`  ${stack}`)
}

/** One life of the process: until it dies, or the time is up. */
async function live(): Promise<void> {
  counts.starts += 1
  isUp = false
  const among = await startAmong(strangers.origin, corpus, tell)
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  while ((await among.lies().catch(() => ['not there yet'])).length > 0 && Date.now() < until)
    await pause(200)
  isUp = true // what the start takes is measured elsewhere
  let calling = true
  const callers = Promise.all(
    Array.from({ length: 4 }, async () => {
      for (; calling; counts.calls++) {
        await call(among, random)
        await pause(20)
      }
    }),
  )
  for (let looks = 1; Date.now() < until && among.alive(); looks++) {
    await pause(LOOK_MS)
    if (!(await among.healthy().catch(() => false)) && among.alive()) find('/healthz did not answer')
    for (const lie of await among.lies().catch(() => [])) find(lie)
    if (looks % SEARCH_EVERY === 0) for (const leak of await among.leaks().catch(() => [])) find(leak)
  }
  calling = false
  await callers
  if (!among.alive()) find(`it died: ${among.printed().slice(-2_000)}`)
  else for (const leak of await among.leaks()) find(leak)
  await among.close()
}

do await live()
while (Date.now() < until)
await strangers.close()
console.log(
  `seed ${SEED}: ${counts.answers} answers and ${counts.calls} calls in ${values.minutes} minutes, ` +
    `${counts.starts} start(s), ${findings.length} finding(s); longest stop ${Math.round(longestOwnMs)} ms of its ` +
    `own, ${Math.round(longestMs)} ms with what other processes took`,
)
process.exitCode = findings.length > 0 ? 1 : 0
