import { test } from 'tap'
import { type RunningAgent, startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

type Test = { teardown(task: () => unknown): void }

/** One server under several names; each path is told where to redirect. */
async function site(t: Test, locations: Record<string, [number, string]>) {
  const seen: { url: string; authorization?: string; method: string }[] = []
  const server: RunningAgent = await startHttp((request, response) => {
    const { authorization } = request.headers
    const url = `http://${request.headers.host}${request.url}`
    seen.push({ url, method: request.method ?? '', ...(authorization && { authorization }) })
    const [status, location] = locations[request.url ?? ''] ?? [200, '']
    response.writeHead(status, location ? { location } : {}).end('here')
  })
  t.teardown(server.close)
  const names = ['a.example', 'www.a.example', 'b.example']
  const hosts = Object.fromEntries(names.map((name) => [name, server.origin]))
  return { seen, server, ...openEgress(t, { hosts, ...loopback }) }
}

test('redirects are not followed unless asked for', async (t) => {
  const { get } = await site(t, { '/': [302, '/there'] })
  t.match(await get('http://a.example/'), { kind: 'reply', status: 302 })
})

test('redirects are followed inside the registrable domain, three at most', async (t) => {
  const chain: Record<string, [number, string]> = {
    '/1': [301, '/2'],
    '/2': [302, 'http://www.a.example/3'],
    '/3': [307, '/4'],
    '/0': [302, '/1'],
  }
  const { get } = await site(t, chain)
  t.match(await get('http://a.example/1', { redirects: 'same-site' }), {
    kind: 'reply',
    status: 200,
    url: 'http://www.a.example/4',
  })
  t.match(await get('http://a.example/0', { redirects: 'same-site' }), {
    kind: 'failed',
    reason: 'bad_redirect',
  })
})

test('a redirect to another site, to a private address or out of https is refused', async (t) => {
  const { get, seen } = await site(t, {
    '/other': [302, 'http://b.example/'],
    '/metadata': [302, 'http://169.254.169.254/latest/meta-data'],
    '/loop': [302, 'http://127.0.0.1:1/'],
    '/down': [302, 'http://a.example/'],
    '/nowhere': [302, ''],
  })
  for (const path of ['/other', '/metadata', '/loop', '/nowhere']) {
    const outcome = await get(`http://a.example${path}`, { redirects: 'same-site' })
    t.match(outcome, { kind: 'failed', reason: 'bad_redirect' }, path)
  }
  t.match(await get('https://a.example/down', { redirects: 'same-site' }), { reason: 'bad_redirect' })
  t.equal(seen.length, 5, 'nothing but the first request of each')
})

test('credentials do not follow to another host of the site', async (t) => {
  const { get, seen } = await site(t, { '/': [307, 'http://www.a.example/there'], '/same': [307, '/there'] })
  const headers = { authorization: 'Bearer secret' }
  await get('http://a.example/', { redirects: 'same-site', headers })
  await get('http://a.example/same', { redirects: 'same-site', headers })
  t.same(
    seen.map(({ authorization }) => authorization),
    ['Bearer secret', undefined, 'Bearer secret', 'Bearer secret'],
  )
})

test('a POST is repeated as a POST or not at all', async (t) => {
  const { get, seen } = await site(t, { '/307': [307, '/there'], '/302': [302, '/there'] })
  const post = { method: 'POST' as const, body: '{}', redirects: 'same-site' as const }
  t.match(await get('http://a.example/307', post), { kind: 'reply', status: 200 })
  t.equal(seen.at(-1)?.method, 'POST')
  t.match(await get('http://a.example/302', post), { kind: 'failed', reason: 'bad_redirect' })
})
