import { test } from 'tap'
import { createAddressPolicy } from '../../src/net/addresses.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

const PRIVATE = [
  '127.0.0.1',
  '10.1.2.3',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '169.254.170.2',
  '100.64.0.1',
  '100.127.255.255',
  '100.100.100.200',
  '168.63.129.16',
  '0.0.0.0',
  '224.0.0.1',
  '255.255.255.255',
  '240.0.0.1',
  '192.0.0.192',
  '192.88.99.1',
  '198.18.0.1',
  '192.0.2.1',
  '198.51.100.1',
  '203.0.113.1',
  '::',
  '::1',
  '::7f00:1',
  '::ffff:127.0.0.1',
  '::ffff:a00:1',
  'fe80::1',
  'fc00::1',
  'fd00:ec2::254',
  'fec0::1',
  'ff02::1',
  '64:ff9b::7f00:1',
  '64:ff9b:1::7f00:1',
  '100::1',
  '2002:7f00:1::1',
  '2001:0:7f00:1::1',
  '2001:20::1',
  '2001:db8::1',
  '3fff::1',
  '5f00::1',
]

test('no address that is not public may be reached', async (t) => {
  const policy = createAddressPolicy({ allowHttp: true, allowNetworks: [] })
  for (const address of PRIVATE) t.notOk(policy.permits(address, 'https:'), address)
  for (const address of ['not an address', '', 'example.com']) t.notOk(policy.permits(address, 'https:'))
})

test('public addresses are reached by https, and by http only where that is allowed', async (t) => {
  for (const address of [
    '93.184.216.34',
    '100.128.0.1',
    '172.32.0.1',
    '2606:2800:220:1:248:1893:25c8:1946',
  ]) {
    const strict = createAddressPolicy({ allowHttp: false, allowNetworks: [] })
    t.ok(strict.permits(address, 'https:'))
    t.notOk(strict.permits(address, 'http:'))
    t.ok(createAddressPolicy({ allowHttp: true, allowNetworks: [] }).permits(address, 'http:'))
  }
})

test('an opened network is reached by http too, in its IPv4-mapped form as well, and opens nothing else', async (t) => {
  const policy = createAddressPolicy({ allowHttp: false, allowNetworks: ['10.0.0.0/8', 'fd00::/8'] })
  for (const address of ['10.9.8.7', '::ffff:10.9.8.7', 'fd00::1'])
    t.ok(policy.permits(address, 'http:'), address)
  for (const address of ['127.0.0.1', '::1', 'fe80::1']) t.notOk(policy.permits(address, 'https:'), address)
})

test('a network that is not CIDR notation is an error that quotes it', async (t) => {
  t.throws(() => createAddressPolicy({ allowHttp: false, allowNetworks: ['10.0.0.0'] }), /10\.0\.0\.0/)
})

test('loopback is refused in every notation of its address, and nothing is sent', async (t) => {
  let requests = 0
  const server = await startHttp((_, response) => {
    requests += 1
    response.end('secret')
  })
  t.teardown(server.close)
  const { port } = new URL(server.origin)
  const { get } = openEgress(t, { allowHttp: true })
  const hosts = [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '017700000001',
    '0x7f.0.0.1',
    '127%2e0%2e0%2e1',
    '①②⑦.⓪.⓪.①',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.0.0.1.',
    '0',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:7f00:0001]',
    '[::127.0.0.1]',
    'localhost',
    'LOCALHOST',
    'user:pass@127.0.0.1',
  ]
  for (const host of hosts)
    t.match(await get(`http://${host}:${port}/`), { kind: 'failed', reason: 'refused' }, host)
  t.match(await get('file:///etc/passwd'), { kind: 'failed', reason: 'refused' })
  t.match(await get('not a url'), { kind: 'failed', reason: 'refused' })
  t.equal(requests, 0)
  const open = openEgress(t, loopback)
  t.match(await open.get(server.url), { kind: 'reply', status: 200 })
})
