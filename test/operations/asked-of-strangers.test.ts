/** The commands of buyers and operators at an address where something else answers than they expect, or in another form. */
import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { addressOf, callTask, type Target } from '../../src/commands/address.js'
import { activate, ask, printFeed } from '../../src/commands/buyer.js'
import { printExplanation } from '../../src/commands/explanation.js'
import { actOnServer, printAudit, printJobs, refreshUpstream } from '../../src/commands/operator.js'
import { CommandFailure } from '../../src/commands/terminal.js'
import { createOutput } from '../support/output.js'
import { startHttp } from '../support/upstream-agent.js'

const MESSAGE = '{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"status":"completed"}}}'

type Printing = { out: NodeJS.WriteStream; err: NodeJS.WriteStream }
type Answer = { status?: number; type?: string; body: string }

/** What comes of calling a task there: its answer, or what the command fails with. */
async function asked(
  t: { teardown(end: () => unknown): void },
  answer: (response: ServerResponse) => void,
  token?: string,
) {
  const server = await startHttp((_, response) => answer(response), '/mcp')
  t.teardown(server.close)
  return await callTask({ base: server.origin, token }, 'get_signals', {}).catch((error) => error)
}

const saying =
  ({ status = 200, type = 'application/json', body }: Answer) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { 'content-type': type }).end(body)

test('what is no answer of an agent is told in a sentence', async (t) => {
  const strange: Answer[] = [
    { type: 'text/html', body: '<html>' },
    { status: 404, type: 'text/plain', body: 'nothing is here' },
    { status: 403, body: '{"error":"no"}' },
    { status: 202, body: '' },
    ...['null', '[]', '1', '{}', '{"result":null}', '{"result":[],"error":7}', '{"error":{"message":7}}'].map(
      (body) => ({ body }),
    ),
    { type: 'text/event-stream', body: 'data: {"jsonrpc":\n\n' },
  ]
  for (const answer of strange) {
    const failure = await asked(t, saying(answer))
    t.type(failure, CommandFailure, answer.body)
    t.match(failure.message, /^http:\S+ .*(?:no answer of an agent|this key)/, answer.body)
  }
  const cut = await asked(t, (response) => {
    response.writeHead(200, { 'content-length': '1000' }).write('{', () => response.destroy())
  })
  t.type(cut, CommandFailure)
  t.match(cut.message, /cannot be reached/)
})

test('an error of JSON-RPC is told in its words, which steer no terminal', async (t) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'too \u001b[2Jmuch' } })
  const failure = await asked(t, saying({ status: 429, body }))
  t.type(failure, CommandFailure)
  t.equal(failure.message, 'too  [2Jmuch')
})

test('a refusal that says to wait says how long', async (t) => {
  const adcp_error = {
    code: 'RATE_LIMITED',
    message: 'Too many requests.',
    retry_after: 5,
    suggestion: 'Wait for retry_after seconds.',
  }
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    result: { structuredContent: { status: 'failed', adcp_error } },
  })
  const failure = await asked(t, saying({ body }))
  t.equal(failure.message, 'RATE_LIMITED: Too many requests. Wait for retry_after seconds. retry_after: 5')
})

type Json = Record<string, unknown>

/** The result of a call of a task, as MCP carries it. */
const resultOf = (structuredContent: Json, rest: Json = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: [], structuredContent, ...rest } })

type Command = (where: Target & Printing) => Promise<void>

const feedAs =
  (json: boolean): Command =>
  (where) =>
    printFeed({ ...where, filters: undefined, limit: 10, json, now: Date.now })
const [ofFeed, ofFeedForPeople] = [feedAs(true), feedAs(false)]
const ofActivation: Command = (where) =>
  activate({
    ...{ ...where, handle: 'sig_x', destination: { type: 'platform' }, deactivate: false, json: true },
    ...{ option: undefined, account: undefined, key: 'a-key-of-its-own' },
  })
const OF_BUYERS: Record<string, Command> = {
  feed: ofFeed,
  ask: (where) => ask({ ...where, words: 'cars', limit: 10, json: true }),
  activate: ofActivation,
}

/** What a command of a buyer says and prints where its calls are answered so, in this order, over and over. */
async function outcomeOf(t: { teardown(end: () => unknown): void }, command: Command, ...bodies: string[]) {
  let asked = 0
  const server = await startHttp((_, response) => {
    saying({ body: bodies[asked++ % bodies.length] as string })(response)
  }, '/mcp')
  t.teardown(server.close)
  const [said, printed] = [createOutput(), createOutput()]
  const where = { config: 'config/sandbox.yaml', url: server.origin, token: 'a-key' }
  const failure = await command({ ...where, out: printed.out, err: said.out }).catch((error) => error)
  const isTold = failure instanceof CommandFailure
  return { isTold, failure: isTold ? failure.message : failure, printed: printed.text() }
}

test('an answer that says it failed is a failure, wherever it says why', async (t) => {
  const warning = { code: 'SLOW', message: 'took long', severity: 'warning' }
  const answers: [string, string][] = [
    [resultOf({ status: 'failed', errors: [warning, { code: 'X', message: 'bad thing' }] }), 'X: bad thing'],
    [resultOf({ status: 'failed', errors: [{ message: 'bad\u001b[2J' }] }), 'bad [2J'],
    [resultOf({ status: 'failed', errors: ['bad thing'] }), 'bad thing'],
    [resultOf({ status: 'rejected', errors: [warning], message: 'not allowed' }), 'rejected: not allowed'],
    [resultOf({ status: 'failed' }), 'failed'],
    [resultOf({ status: 'canceled', message: 7 }), 'canceled'],
    [resultOf({ status: 'of no agent\n' }), 'of no agent'],
    [resultOf({ status: { toString: 1 } }), 'failed'],
    [resultOf({ errors: [{ code: 'X', message: 'bad thing' }] }, { isError: true }), 'X: bad thing'],
    [resultOf({ status: 'completed', signals: [] }, { isError: true }), 'failed'],
  ]
  for (const [body, words] of answers) {
    for (const [name, command] of Object.entries(OF_BUYERS)) {
      const { isTold, failure, printed } = await outcomeOf(t, command, body)
      t.same(
        { isTold, failure: failure?.trim(), printed },
        { isTold: true, failure: words, printed: '' },
        name,
      )
    }
  }
})

test('what comes later is an answer to an activation, and none to a question for rows', async (t) => {
  for (const status of ['submitted', 'working', 'input-required', 'auth-required']) {
    const body = resultOf({ status, task_id: 't1', message: 'Wait for t1.' })
    for (const name of ['feed', 'ask']) {
      const outcome = await outcomeOf(t, OF_BUYERS[name] as Command, body)
      t.same(outcome, { isTold: true, failure: `${status}: Wait for t1.`, printed: '' }, name)
    }
    t.match((await outcomeOf(t, ofActivation, body)).printed, `"status":"${status}"`)
  }
})

const versions = { wholesale_feed_version: 'v1', pricing_version: 'p1', cache_scope: 'public' }
const page = (id: string, pagination: Json, rest: Json = {}) =>
  resultOf({
    ...{ status: 'completed', ...versions, signals: [{ signal_agent_segment_id: id }], pagination },
    ...rest,
  })

test('feed joins no pages of two feeds: prices, scope and count are the same on all of them', async (t) => {
  const first = page('one', { has_more: true, cursor: 'c', total_count: 2 })
  const last = { has_more: false, total_count: 2 }
  const ofOthers = [
    page('two', last, { pricing_version: 'p2' }),
    page('two', last, { cache_scope: 'account' }),
    page('two', last, { wholesale_feed_version: 'v2' }),
    page('two', { ...last, total_count: 3 }),
  ]
  for (const other of ofOthers) {
    const machine = await outcomeOf(t, ofFeed, first, other)
    t.match(machine.failure, /the feed moved during the walk, so the lines above are stale/, other)
    const people = await outcomeOf(t, ofFeedForPeople, first, other)
    t.match(people.failure, /the feed changed during every walk/, other)
    t.equal(people.printed, '')
    const settled = await outcomeOf(t, ofFeedForPeople, first, other, first, page('two', last))
    t.match(settled, { isTold: false, printed: /one\n.*two\n\n2 signals, version v1\n$/ }, other)
  }
})

test('feed is no whole feed with fewer or more rows than it announced, or none at all', async (t) => {
  const feeds: [string, RegExp][] = [
    [page('one', { has_more: false, total_count: 5 }), /announced 5 signals and gave 1/],
    [page('one', { has_more: false, total_count: 0 }), /announced 0 signals and gave 1/],
    [resultOf({ status: 'completed', ...versions }), /a page holds no list of signals/],
  ]
  for (const [body, words] of feeds) {
    for (const command of [ofFeed, ofFeedForPeople]) {
      const { isTold, failure, printed } = await outcomeOf(t, command, body)
      t.same({ isTold, printed }, { isTold: true, printed: '' })
      t.match(failure, /^http:\S+ gives no whole feed: /)
      t.match(failure, words)
    }
  }
})

test('an agent may answer with a stream of events', async (t) => {
  const note = 'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}'
  for (const end of ['\n', '\r\n']) {
    const body = `: hello\n\n${note}\n\nid: 1\ndata: ${MESSAGE}\n\n`.replaceAll('\n', end)
    t.match(await asked(t, saying({ type: 'text/event-stream', body })), { status: 'completed' })
  }
})

test('who gives no key is asked for one, and who gives a wrong one is told so', async (t) => {
  const refusing = saying({ status: 401, body: '{"error":{"message":"not valid"}}' })
  t.match((await asked(t, refusing)).message, /asks for a key/)
  t.match((await asked(t, refusing, 'wrong')).message, /does not accept this key/)
})

test("the demo world's keys are for this machine; elsewhere, who gives no key is anonymous", async (t) => {
  const sent = async (url: string) =>
    (await addressOf({ config: 'config/sandbox.yaml', url, token: undefined }, 'buyer')).token
  for (const here of ['http://127.0.0.1:9/mcp', 'http://localhost:9', 'http://[::1]:9'])
    t.equal(await sent(here), 'demo-buyer-key', here)
  for (const elsewhere of [
    'https://signals.acme.example/mcp',
    'http://10.0.0.1',
    'http://localhost.acme.example',
  ])
    t.equal(await sent(elsewhere), undefined, elsewhere)
})

test('an activation whose answer never comes can be repeated: its key was told before', async (t) => {
  const server = await startHttp((_, response) => void response.destroy(), '/mcp')
  t.teardown(server.close)
  const [said, printed] = [createOutput(), createOutput()]
  const where = { config: 'config/sandbox.yaml', url: server.origin, token: undefined }
  const what = { handle: 'sig_x', destination: { type: 'platform', platform: 'dv360' }, deactivate: false }
  const rest = { option: undefined, account: undefined, key: undefined, json: true }
  const asking = activate({ ...where, ...what, ...rest, out: printed.out, err: said.out })
  await t.rejects(asking, CommandFailure)
  t.match(said.text(), /^key [\da-f-]{36}\n$/)
  t.equal(printed.text(), '', 'the standard output is for the answer')
})

test('what an answer lacks is told with its rows, and beside them where machines read the rows', async (t) => {
  const gap = { scope: 'signals', description: 'b did not \u001b[2Janswer' }
  const page = { status: 'completed', message: 'See incomplete.', signals: [{ name: 'one' }] }
  const body = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1 },
    result: { structuredContent: { ...page, incomplete: [gap] } },
  })
  const server = await startHttp((_, response) => saying({ body })(response), '/mcp')
  t.teardown(server.close)
  const where = { config: 'config/sandbox.yaml', url: server.origin, token: 'a-key', limit: 10 }
  for (const json of [false, true]) {
    for (const [name, command] of [
      ['ask', (to: Printing) => ask({ ...where, ...to, words: 'cars', json })],
      ['feed', (to: Printing) => printFeed({ ...where, ...to, filters: undefined, json, now: Date.now })],
    ] as const) {
      const [said, printed] = [createOutput(), createOutput()]
      await command({ out: printed.out, err: said.out })
      const [told, other] = json ? [said, printed] : [printed, said]
      t.match(
        told.text(),
        /^(tributary: )?incomplete \(signals\): b did not {2}\[2Janswer$/m,
        `${name} ${json}`,
      )
      t.notMatch(other.text(), /incomplete \(/, `${name} ${json}`)
    }
  }
})

const OF_OPERATORS = {
  refresh: (where, out) => refreshUpstream({ ...where, upstream: 'x', out }),
  exclude: (where, out) =>
    actOnServer({ ...where, action: 'exclude-upstream', subject: 'x', done: 'left out', out }),
  audit: (where, out) => printAudit({ ...where, json: false, out }),
  jobs: (where, out) => printJobs({ ...where, json: true, out }),
  explain: (where, out) =>
    printExplanation({
      ...{ ...where, ref: 'x', caller: undefined, account: undefined, filters: undefined, countries: [] },
      ...{ json: true, out },
    }),
} satisfies Record<string, (where: Target, out: NodeJS.WriteStream) => Promise<void>>

/** What each of an operator's commands fails with there, and what it has printed until then. */
async function failures(
  t: { teardown(end: () => unknown): void },
  answer: (response: ServerResponse) => void,
  token: string | undefined = 'a-key',
) {
  const server = await startHttp((_, response) => answer(response))
  t.teardown(server.close)
  const where = { config: 'config/sandbox.yaml', url: server.origin, token }
  return await Promise.all(
    Object.values(OF_OPERATORS).map(async (command) => {
      const printed = createOutput()
      const failure: unknown = await command(where, printed.out).catch((error: unknown) => error)
      return { isTold: failure instanceof CommandFailure, said: `${failure}`, printed: printed.text() }
    }),
  )
}

test('nothing is told as done where no Tributary answers', async (t) => {
  const bodies = [
    '<!doctype html>',
    '',
    'null',
    '[]',
    '1',
    '{}',
    '{"entries":{},"jobs":7,"upstreams":[null]}',
  ]
  for (const body of bodies) {
    for (const one of await failures(t, saying({ body }))) {
      t.match(one, { isTold: true, said: /gives no answer of an agent \(HTTP 200\)/, printed: '' }, body)
    }
  }
  const cut = (response: ServerResponse) =>
    void response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy())
  for (const one of await failures(t, cut)) {
    t.match(one, { isTold: true, said: /cannot be reached/, printed: '' })
  }
})

test('a refusal is told in the words of the server, whatever holds them', async (t) => {
  const rpc = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: 1, message: 'went \u001b[2Jwrong' } })
  for (const one of await failures(t, saying({ status: 500, body: rpc })))
    t.match(one.said, /went {2}\[2Jwrong$/)
  const foreign = saying({ status: 403, body: '{"error":"This Host is not welcome"}' })
  for (const one of await failures(t, foreign)) t.match(one.said, /This Host is not welcome$/)
  const unsigned = saying({ status: 401, body: '{"error":"This request must be signed"}' })
  for (const one of await failures(t, unsigned)) {
    t.match(one.said, /does not accept this key \(This request must be signed\); give another with --token/)
  }
  for (const one of await failures(t, saying({ status: 502, body: '<h1>' }))) t.match(one.said, /HTTP 502/)
})

test('whoever is sent elsewhere is told where, and sends no key there', async (t) => {
  const there = await startHttp((_, response) => {
    t.fail('it is not asked')
    response.end('{}')
  })
  t.teardown(there.close)
  const location = there.origin
  for (const status of [301, 307, 308]) {
    const answer = (response: ServerResponse) => void response.writeHead(status, { location }).end()
    for (const one of await failures(t, answer)) t.match(one.said, `is elsewhere, at ${location}`)
  }
})

test('a redirect to what is no address is no answer, told in a sentence', async (t) => {
  for (const location of ['http://[', 'http://', 'https://a b']) {
    const answer = (response: ServerResponse) => void response.writeHead(302, { location }).end()
    for (const failure of [...(await failures(t, answer)), { said: `${await asked(t, answer)}` }]) {
      t.match(failure.said, /CommandFailure: \S+ gives no answer of an agent \(HTTP 302\)/, location)
    }
  }
})

test('a key that no header can hold is not sent and not shown', async (t) => {
  const strange = saying({ body: '{}' })
  for (const one of await failures(t, strange, 'se\ncretKEY')) {
    t.match(one, {
      isTold: true,
      said: /--token or TRIBUTARY_TOKEN: expected a key that can stand in a header/,
    })
    t.notMatch(one.said, 'cret')
  }
})
