/**
 * What ours is compared with in its process: a bare Fastify route, the least that Node can do for the same answer, and the
 * least for an answer that nobody asked for before. They send as many bytes as they were given last, in
 * turn: `PUT /bytes` adds to them, `?first` begins anew.
 */
import { createHmac, createSecretKey } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import Fastify, { type FastifyInstance } from 'fastify'
import { isRecord } from '../src/adcp/json.js'
import { TOKENS } from './serving-options.js'

const MOST_BYTES = 8 * 1024 * 1024
const ROWS_BEGIN = '"signals":['
const TAIL_BYTES = 200

/** An answer as one piece, and as the pieces in which ours writes it: text, prepared rows, text. */
type Taught = { whole: Buffer; pieces: readonly (string | Buffer)[] }

function taught(whole: Buffer): Taught {
  const isText = whole[0] === '{'.charCodeAt(0)
  if (!isText) return { whole, pieces: [whole] }
  const at = whole.indexOf(ROWS_BEGIN)
  if (at < 0) return { whole, pieces: [whole.toString()] }
  const start = at + ROWS_BEGIN.length
  const end = whole.byteLength - TAIL_BYTES
  const pieces = [
    whole.toString('latin1', 0, start),
    whole.subarray(start, end),
    whole.toString('latin1', end),
  ]
  return { whole, pieces }
}

function createAnswers() {
  let answers: Taught[] = []
  let given = 0
  return {
    teach(bytes: Buffer, isFirst: boolean): void {
      if (isFirst) answers = []
      answers.push(taught(bytes))
    },
    next: () => answers[given++ % answers.length] as Taught,
  }
}

/** A Fastify route as anybody writes it. */
export function bare(): FastifyInstance {
  const app = Fastify({ logger: false, bodyLimit: MOST_BYTES })
  const answers = createAnswers()
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  app.put('/bytes', (request, reply) => {
    answers.teach(request.body as Buffer, request.url.includes('?first'))
    return reply.send({})
  })
  app.post('/bare', (_request, reply) => reply.type('application/json').send(answers.next().whole))
  return app
}

/** By the header that they send; undefined stands for who sends none. */
const CALLERS = new Set([undefined, ...Object.values(TOKENS).map((token) => `Bearer ${token}`)])

/** Pieces of an answer, and what to do when the last of them has left. */
type Sent = { pieces: Taught['pieces']; done?: () => void }

/**
 * A server of Node alone: it reads and parses the question, knows the caller, and writes an answer with the same headers in as
 * many pieces as ours. `taught` is told the path under which answers were given.
 */
function plain(
  answer: (given: Taught, question: string) => Sent,
  taught: (path: string) => void = () => {},
): Server {
  const answers = createAnswers()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (request.method === 'PUT') {
        const path = request.url ?? ''
        answers.teach(Buffer.concat(chunks), path.includes('?first'))
        if (path.includes('?first')) taught(path)
        return void response.end()
      }
      const question = Buffer.concat(chunks).toString()
      if (!CALLERS.has(request.headers.authorization) || !isRecord(JSON.parse(question))) {
        return void response.writeHead(400).end()
      }
      const given = answers.next()
      const { pieces, done } = answer(given, question)
      const length = ['content-length', String(given.whole.byteLength), 'x-request-id', 'req-00000000']
      response.writeHead(200, [...length, 'content-type', 'application/json', 'vary', 'Accept-Encoding'])
      response.cork()
      for (const piece of pieces.slice(0, -1)) response.write(piece)
      response.end(pieces.at(-1), done)
      response.uncork()
    })
  })
  return Object.assign(server, { keepAliveTimeout: 72_000, requestTimeout: 0, timeout: 0 })
}

/** The least that any server must do for an answer that it has. */
export const least = (): Server => plain(({ pieces }) => ({ pieces }))

const ROWS = 20_000
const ROW_BYTES = 1_180
const LISTING_BYTES = 700
const KEY_BYTES = 60
const ROWS_A_PAGE = 50
const MAC = 22

/**
 * The least for a page that nobody asked for before: it signs a cursor, and copies fifty rows, each in two pieces as where
 * something between them is left out, from memory as large as that of the feed, and so many keys (`&keys=`) from memory as
 * large as that of the listings, where they lie in another order. Every `&step=`th row of the feed is shown. What it writes into is used again.
 */
export function gathering(): Server {
  const secret = createSecretKey(Buffer.from('bench'))
  const rows = Buffer.alloc(ROWS * ROW_BYTES, 'a row ')
  const listings = Buffer.alloc(ROWS * LISTING_BYTES, 'a listing ')
  const idle: Buffer[] = []
  let [keys, step, page] = [0, 1, 0]

  function gathered(length: number): Buffer {
    const into = idle.pop() ?? Buffer.allocUnsafeSlow(ROWS_A_PAGE * 2 * ROW_BYTES)
    const each = Math.floor((length - keys * KEY_BYTES) / ROWS_A_PAGE)
    const half = each >> 1
    page += 1
    let at = 0
    const copy = (from: Buffer, start: number, bytes: number) => {
      into.set(from.subarray(start, start + bytes), at)
      at += bytes
    }
    for (let order = 0; order < ROWS_A_PAGE; order += 1) {
      const row = ((page * ROWS_A_PAGE + order) * step) % (ROWS - 1) // a row that is shown whole reaches into the next one
      copy(rows, row * ROW_BYTES, half)
      if (order < keys) copy(listings, ((row * 7_919) % ROWS) * LISTING_BYTES, KEY_BYTES)
      copy(rows, row * ROW_BYTES + ROW_BYTES - half, each - half)
    }
    return into
  }

  return plain(
    ({ pieces }, question) => {
      const [head = '', given = '', tail = ''] = pieces
      const into = gathered(given.length)
      const cursor = createHmac('sha256', secret).update(question).digest('base64url').slice(0, MAC)
      const shown = into.subarray(0, given.length)
      return { pieces: [head, shown, tail.slice(0, -MAC) + cursor], done: () => void idle.push(into) }
    },
    (path) => {
      const asked = new URLSearchParams(path.split('?')[1])
      keys = Number(asked.get('keys') ?? 0)
      step = Number(asked.get('step') ?? 1)
    },
  )
}
