/** Whose rate limit a caller without a key uses up: X-Forwarded-For counts as far as our own proxies wrote it. */
import { type Test, test } from 'tap'
import { OTHER_TOKEN, startServer } from '../support/server-fixture.js'

/** Each asks once where each has one call: gives whether it was let through. */
async function asking(t: Test, trustedProxies: string[], ...headers: Record<string, string>[]) {
  const { post } = await startServer(t, {
    trustedProxies,
    rateLimit: { perSecond: 0.001, burst: 1 },
    now: () => 1_000,
  })
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  const through: boolean[] = []
  for (const each of headers) through.push((await post('/mcp', ping, each)).status === 200)
  return through
}
const from = (address: string) => ({ 'x-forwarded-for': address })
const LOOPBACK = ['127.0.0.0/8']

test('without trusted proxies the header is ignored, whatever it says', async (t) => {
  const through = await asking(t, [], from('203.0.113.1'), from('203.0.113.2'), {})
  t.same(through, [true, false, false])
})

test('a connection from elsewhere than the trusted proxies writes what it likes in vain', async (t) => {
  t.same(await asking(t, ['10.0.0.0/8'], from('203.0.113.1'), from('203.0.113.2')), [true, false])
})

test('behind a trusted proxy each address has a bucket of its own', async (t) => {
  const through = await asking(
    t,
    LOOPBACK,
    from('203.0.113.1'),
    from('203.0.113.2'),
    from('203.0.113.1'),
    from('2001:db8::7'),
    from('::ffff:203.0.113.9'),
  )
  t.same(through, [true, true, false, true, true])
})

test('what a caller puts before the entry of our proxy buys no second bucket', async (t) => {
  const through = await asking(
    t,
    LOOPBACK,
    from('198.51.100.1, 203.0.113.1'),
    from('198.51.100.2, 203.0.113.1'),
    from('203.0.113.1'),
    from('10.9.9.9,127.0.0.1, 203.0.113.1'),
  )
  t.same(through, [true, false, false, false], 'an address that is not trusted ends the way back')
})

test('proxies behind each other are walked back to the first address that is not one of them', async (t) => {
  const chain = [...LOOPBACK, '10.0.0.0/8']
  const through = await asking(
    t,
    chain,
    from('203.0.113.1, 10.0.0.2'),
    from('203.0.113.2, 10.0.0.2'),
    from('203.0.113.2, 10.0.0.3'),
  )
  t.same(through, [true, true, false])
})

test('an entry that is no address leaves the request with the proxy that wrote it', async (t) => {
  const through = await asking(t, LOOPBACK, from('unknown'), from('203.0.113.1:80'), from(''), {})
  t.same(through, [true, false, false, false])
})

test('a key has its own bucket wherever it comes from', async (t) => {
  const key = { authorization: `Bearer ${OTHER_TOKEN}` }
  const through = await asking(
    t,
    LOOPBACK,
    { ...from('203.0.113.1'), ...key },
    { ...from('203.0.113.2'), ...key },
  )
  t.same(through, [true, false])
})
