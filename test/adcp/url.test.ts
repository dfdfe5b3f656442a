import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { test } from 'tap'
import { canonicalUrl } from '../../src/adcp/url.js'
import { anyUrl } from '../support/any-text.js'
import { proven } from '../support/proven.js'

const VECTORS = '../shared/adcp/adagents/url-canonicalization-vectors.json'
type Vector = { name: string; input_url: string; expected_target_uri?: string; reject?: boolean }

const skip = existsSync(VECTORS) ? false : `${VECTORS} is not here`

test('every conformance vector of the protocol', { skip }, (t) => {
  const { cases } = JSON.parse(readFileSync(VECTORS, 'utf8')) as { cases: Vector[] }
  t.ok(cases.length >= 30, `${cases.length} vectors`)
  for (const vector of cases) {
    t.equal(
      canonicalUrl(vector.input_url),
      vector.reject ? undefined : vector.expected_target_uri,
      vector.name,
    )
  }
  t.end()
})

test('what the platform parser would repair is refused', (t) => {
  const refused = [
    '',
    'seller.example/mcp',
    'ftp://seller.example/',
    'javascript:alert(1)',
    'https:/seller.example/mcp',
    'https:seller.example/mcp',
    'https://seller.example\\@evil.example/',
    'https://seller.example\\mcp',
    ' https://seller.example/',
    'https://seller.example/ ',
    'https://sel\tler.example/',
    'https://seller.example/m\ncp',
    'https://a@b@seller.example/',
    'https://seller.example:99999/',
    'https://seller.example/%zz',
    'https://./',
  ]
  for (const url of refused) t.equal(canonicalUrl(url), undefined, JSON.stringify(url))
  t.end()
})

test('differences that count stay different', (t) => {
  const urls = [
    'https://seller.example/mcp',
    'https://seller.example/mcp/',
    'https://seller.example/MCP',
    'https://seller.example/',
    'http://seller.example/mcp',
    'https://seller.example:8443/mcp',
    'https://seller.example//mcp',
    'https://seller.example/mcp?',
    'https://seller.example/mcp?a=%2f',
    'https://seller.example/mcp?a=%2F',
    'https://www.seller.example/mcp',
  ]
  t.equal(new Set(urls.map(canonicalUrl)).size, urls.length)
  t.end()
})

test('escaped dot segments cannot hide a path', (t) => {
  t.equal(canonicalUrl('https://seller.example/a/%2e%2E/b'), 'https://seller.example/b')
  t.equal(canonicalUrl('https://seller.example/../../b'), 'https://seller.example/b')
  t.end()
})

test('a canonical url is its own canonical form', (t) => {
  const messy = fc.string({ unit: fc.constantFrom(...'aZ/.%2eEfF~:@?#[]é \\-_') })
  proven(
    t,
    200,
    fc.property(fc.oneof(anyUrl(), messy), (text) => {
      const url = canonicalUrl(text.startsWith('http') ? text : `https://h.example/${text}`)
      return url === undefined || canonicalUrl(url) === url
    }),
  )
  t.end()
})
