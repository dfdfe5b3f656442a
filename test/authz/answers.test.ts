import { gzipSync } from 'node:zlib'
import { test } from 'tap'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import type { SendOutcome } from '../../src/net/send.js'
import { AGENT, createWorld, granting, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`
const CDN = 'cdn.example/file.json'
type World = Awaited<ReturnType<typeof createWorld>>

/** The verdict about s1 after the provider was looked at once. */
async function verdictIn(world: World) {
  const providers = world.providers()
  providers.want(named(['p.example']))
  await providers.settled()
  const state = providers.state('p.example')
  return decide(compileProvider(state ?? { domain: 'p.example' }), 's1', AGENT, world.clock.now())
}

const pointer = (to: string) => ({ body: { authoritative_location: to } })
const padded = (bytes: number) => ({ body: JSON.stringify(granting(['s1'], { pad: 'x'.repeat(bytes) })) })
const MB = 1024 * 1024

type Case = { what: string; serve(world: World): void; is: string }
const cases: Case[] = [
  { what: 'a file', serve: ({ web }) => web.page(P, { body: granting(['s1']) }), is: 'authorized' },
  {
    what: 'a file that does not grant',
    serve: ({ web }) => web.page(P, { body: granting(['s2']) }),
    is: 'agent_not_listed_for_signal',
  },
  {
    what: 'a catalogue without grants',
    serve: ({ web }) => web.page(P, { body: granting([]) }),
    is: 'agent_not_listed',
  },
  { what: '404', serve: () => {}, is: 'no_file' },
  { what: '410', serve: ({ web }) => web.page(P, { status: 410 }), is: 'no_file' },
  { what: '403', serve: ({ web }) => web.page(P, { status: 403 }), is: 'unreachable' },
  { what: '503', serve: ({ web }) => web.page(P, { status: 503 }), is: 'unreachable' },
  {
    what: '304 although nothing was asked for',
    serve: ({ web }) => web.page(P, { status: 304 }),
    is: 'unreachable',
  },
  {
    what: 'a broken connection',
    serve: ({ web }) => web.page(P, (request) => request.destroy()),
    is: 'unreachable',
  },
  {
    what: 'a body that breaks off',
    serve: ({ web }) =>
      web.page(P, (_, response) => {
        response.writeHead(200, { 'content-length': 100 })
        response.write('{')
        response.destroy()
      }),
    is: 'unreachable',
  },
  { what: 'HTML', serve: ({ web }) => web.page(P, { body: '<!doctype html>' }), is: 'invalid_file' },
  {
    what: 'bytes that are not UTF-8',
    serve: ({ web }) => web.page(P, { body: Buffer.from([0x7b, 0xff, 0x7d]) }),
    is: 'invalid_file',
  },
  { what: 'just under 5 MB', serve: ({ web }) => web.page(P, padded(5 * MB - 1_000)), is: 'authorized' },
  { what: 'over 5 MB', serve: ({ web }) => web.page(P, padded(5 * MB)), is: 'too_large' },
  {
    what: 'a bomb of 30 MB in a small gzip',
    serve: ({ web }) =>
      web.page(P, { headers: { 'content-encoding': 'gzip' }, body: gzipSync(Buffer.alloc(30 * MB, ' ')) }),
    is: 'too_large',
  },
  {
    what: 'a redirect inside the domain',
    serve: ({ web }) => {
      web.page(P, { status: 301, headers: { location: 'https://www.p.example/a.json' } })
      web.page('www.p.example/a.json', { body: granting(['s1']) })
    },
    is: 'authorized',
  },
  {
    what: 'a redirect out of the domain',
    serve: ({ web }) => {
      web.page(P, { status: 302, headers: { location: 'https://cdn.example/file.json' } })
      web.page(CDN, { body: granting(['s1']) })
    },
    is: 'bad_redirect',
  },
  {
    what: 'a redirect to http',
    serve: ({ web }) => web.page(P, { status: 302, headers: { location: 'http://p.example/a' } }),
    is: 'bad_redirect',
  },
  {
    what: 'redirects in a circle',
    serve: ({ web }) => web.page(P, { status: 302, headers: { location: `https://${P}` } }),
    is: 'bad_redirect',
  },
  {
    what: 'a pointer to another host',
    serve: ({ web }) => {
      web.page(P, pointer(`https://${CDN}`))
      web.page(CDN, { body: granting(['s1']) })
    },
    is: 'authorized',
  },
  {
    what: '19 MB behind a pointer',
    serve: ({ web }) => {
      web.page(P, pointer(`https://${CDN}`))
      web.page(CDN, padded(19 * MB))
    },
    is: 'authorized',
  },
  {
    what: 'over 20 MB behind a pointer',
    serve: ({ web }) => {
      web.page(P, pointer(`https://${CDN}`))
      web.page(CDN, padded(20 * MB))
    },
    is: 'too_large',
  },
  {
    what: 'a pointer to a redirect',
    serve: ({ web }) => {
      web.page(P, pointer(`https://${CDN}`))
      web.page(CDN, { status: 302, headers: { location: 'https://cdn.example/other.json' } })
      web.page('cdn.example/other.json', { body: granting(['s1']) })
    },
    is: 'bad_pointer',
  },
  {
    what: 'a pointer to a pointer',
    serve: ({ web }) => {
      web.page(P, pointer(`https://${CDN}`))
      web.page(CDN, { body: { authoritative_location: 'https://cdn2.example/x', ...granting(['s1']) } })
    },
    is: 'bad_pointer',
  },
  {
    what: 'a pointer to itself',
    serve: ({ web }) => web.page(P, pointer(`https://${P}`)),
    is: 'bad_pointer',
  },
  {
    what: 'a pointer to http',
    serve: ({ web }) => web.page(P, pointer('http://cdn.example/file.json')),
    is: 'bad_pointer',
  },
  { what: 'a pointer to nothing', serve: ({ web }) => web.page(P, pointer(`https://${CDN}`)), is: 'no_file' },
  {
    what: 'a pointer into our own network',
    serve: ({ web }) => web.page(P, pointer('https://169.254.169.254/latest')),
    is: 'unreachable',
  },
  {
    what: 'a superseded file',
    serve: ({ web }) => {
      web.page(P, { body: granting(['s1'], { superseded_by: `https://${CDN}` }) })
      web.page(CDN, { body: granting(['s2']) })
    },
    is: 'agent_not_listed_for_signal',
  },
]

for (const { what, serve, is } of cases) {
  test(`a verdict is ${is} after ${what}`, async (t) => {
    const world = await createWorld()
    t.teardown(world.close)
    serve(world)
    const verdict = await verdictIn(world)
    t.equal('reason' in verdict ? verdict.reason : verdict.outcome, is)
  })
}

test('a domain that is no domain is never asked', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  providers.want(named(['127.0.0.1', 'localhost', 'P.Example']))
  await providers.settled()
  t.equal(providers.state('127.0.0.1')?.problem?.reason, 'bad_domain')
  t.equal(providers.state('localhost')?.problem?.reason, 'bad_domain')
  t.equal(providers.state('p.example')?.problem?.reason, 'no_file')
  t.equal(world.web.requests.length, 1)
})

test('no request carries credentials, and each names what it accepts', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  await verdictIn(world)
  const [{ headers } = { headers: {} }] = world.web.requests
  t.match(headers, { accept: 'application/json', authorization: undefined, cookie: undefined })
})

test('a server that dribbles is cut off by the total time', async (t) => {
  const asked: number[] = []
  const world = await createWorld({
    hurry: (send) => (request) => {
      asked.push(request.timeoutMs)
      return send({ ...request, timeoutMs: request.timeoutMs / 100 })
    },
  })
  t.teardown(world.close)
  world.web.page(P, (_, response) => {
    response.writeHead(200)
    const dribble = setInterval(() => response.write(' '), 5)
    response.on('close', () => clearInterval(dribble))
  })
  t.match(await verdictIn(world), { reason: 'unreachable' })
  t.match(world.providers().state('p.example')?.problem, { passing: true, message: /within/ })
  t.same(asked, [10_000])
})

test('an answer from outside the provider is refused, whoever let the request go there', async (t) => {
  const world = await createWorld({
    hurry: (send) => async (request) =>
      ({ ...(await send(request)), url: 'https://other.example/x' }) as SendOutcome,
  })
  t.teardown(world.close)
  world.web.page(P, { body: granting(['s1']) })
  t.match(await verdictIn(world), { reason: 'bad_redirect' })
})
