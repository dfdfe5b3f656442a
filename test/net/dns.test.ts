import type { LookupAddress } from 'node:dns'
import { test } from 'tap'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

test('the address that was checked is the one connected to: a second answer is never asked for', async (t) => {
  const server = await startHttp((_, response) => void response.end('ok'))
  t.teardown(server.close)
  const answers: LookupAddress[][] = [
    [{ address: '127.0.0.1', family: 4 }],
    [{ address: '169.254.169.254', family: 4 }],
  ]
  let asked = 0
  const { get } = openEgress(t, loopback, async () => answers[Math.min(asked++, 1)] ?? [])
  const { port } = new URL(server.origin)
  t.match(await get(`http://rebinding.example:${port}/`), { kind: 'reply', status: 200 })
  t.equal(asked, 1)
})

test('a name that resolves to a private address is refused, also when it answered well before', async (t) => {
  let asked = 0
  const { get } = openEgress(t, loopback, async () => {
    asked += 1
    return [{ address: asked === 1 ? '127.0.0.1' : '10.0.0.1', family: 4 }]
  })
  const server = await startHttp((_, response) => {
    response.setHeader('connection', 'close') // so that the second request must connect again
    response.end('ok')
  })
  t.teardown(server.close)
  const { port } = new URL(server.origin)
  t.match(await get(`http://moving.example:${port}/`), { kind: 'reply' })
  t.match(await get(`http://moving.example:${port}/`), { kind: 'failed', reason: 'refused' })
})

test('of many addresses only those that may be reached are tried', async (t) => {
  const server = await startHttp((_, response) => void response.end('ok'))
  t.teardown(server.close)
  const { get } = openEgress(t, loopback, async () => [
    { address: '10.0.0.1', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ])
  const { port } = new URL(server.origin)
  t.match(await get(`http://mixed.example:${port}/`), { kind: 'reply', status: 200 })
})

test('a name without an address has a word of its own', async (t) => {
  const { get } = openEgress(t, loopback, async () => {
    throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  })
  t.match(await get('https://nowhere.example/'), { kind: 'failed', reason: 'unresolvable' })
})

test('a mapped domain goes to its origin with its own Host header, and needs no opened network', async (t) => {
  const hosts: (string | undefined)[] = []
  const server = await startHttp((request, response) => {
    hosts.push(request.headers.host)
    response.end(request.url)
  })
  t.teardown(server.close)
  const { egress, get } = openEgress(t, { hosts: { 'tridentauto.example': server.origin } })
  const reply = await get('https://tridentauto.example/.well-known/adagents.json?x=1')
  t.match(reply, { kind: 'reply', url: 'https://tridentauto.example/.well-known/adagents.json?x=1' })
  t.equal(reply.kind === 'reply' && Buffer.from(reply.body).toString(), '/.well-known/adagents.json?x=1')
  t.same(hosts, ['tridentauto.example'])
  egress.reconfigure({ allowHttp: false, allowNetworks: [], hosts: {} })
  t.match(await get('http://tridentauto.example/', { timeoutMs: 1_000 }), { kind: 'failed' })
  t.throws(
    () => egress.reconfigure({ allowHttp: false, allowNetworks: [], hosts: { x: 'nonsense' } }),
    /nonsense/,
  )
})
