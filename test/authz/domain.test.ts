import { test } from 'tap'
import { providerDomain, speaksFor } from '../../src/authz/provider/domains.js'

test('a provider is a registrable name, in one spelling', async (t) => {
  t.equal(providerDomain('tridentauto.example'), 'tridentauto.example')
  t.equal(providerDomain('Data.TridentAuto.Example.'), 'data.tridentauto.example')
  t.equal(providerDomain('bücher.example'), 'xn--bcher-kva.example')
  t.equal(providerDomain('xn--bcher-kva.example'), 'xn--bcher-kva.example')
})

test('what is no registrable name is no provider', async (t) => {
  const others = [
    '',
    '.',
    '127.0.0.1',
    '0x7f.1',
    '2130706433',
    '[::1]',
    '::1',
    'localhost',
    'com',
    'co.uk',
    'github.io',
  ]
  const tricks = [
    'a.example:8080',
    'a.example/x',
    'a.example?x',
    'u@a.example',
    'a%2eexample',
    'a..example',
    'a b.example',
    'a_b.example',
    '-a.example',
    `${'a'.repeat(254)}.example`,
  ]
  for (const text of [...others, ...tricks]) t.equal(providerDomain(text), undefined, JSON.stringify(text))
})

test('only https urls inside the registrable domain speak for a provider', async (t) => {
  t.ok(speaksFor('https://www.p.example/x', 'p.example'))
  t.ok(speaksFor('https://p.example/x', 'data.p.example'))
  t.notOk(speaksFor('http://p.example/x', 'p.example'))
  t.notOk(speaksFor('https://p.example.evil.example/x', 'p.example'))
  t.notOk(speaksFor('https://evilp.example/x', 'p.example'))
  t.notOk(speaksFor('https://b.github.io/x', 'a.github.io'), 'tenants of one platform are strangers')
})
