import { test } from 'tap'
import { upstreamsSettings } from '../../src/composition/settings.js'
import { parseConfig } from '../../src/config/load.js'

test('to upstreams that ask for an account we are the host of our public url, where that is a public name', (t) => {
  const domainOf = (listen: object) =>
    upstreamsSettings(parseConfig('test', JSON.stringify({ listen }), {})).account
  const account = (domain: string) => ({ brand: { domain }, operator: domain })
  t.same(domainOf({ public_url: 'https://signals.agency.com:8443/' }), account('signals.agency.com'))
  for (const url of ['http://localhost:8080', 'https://10.0.0.7', 'https://signals.internal']) {
    t.same(domainOf({ public_url: url }), account('tributary.invalid'), url)
  }
  t.same(domainOf({}), account('tributary.invalid'))
  t.end()
})
