import { test } from 'tap'
import { inspect } from '../../src/authz/provider/inspector.js'
import { decide } from '../../src/authz/rules/verdict.js'
import { compiled, NOW } from './compiled.js'

const good = JSON.stringify({ authorized_agents: [] })
const text = (value: string) => new TextEncoder().encode(value)

test('what is no adagents.json is invalid, with a reason that quotes nothing of it', async (t) => {
  const files: [string, Uint8Array, RegExp][] = [
    ['nothing', text(''), /not JSON/],
    ['HTML', text('\n<!doctype html><title>secret</title>'), /HTML/],
    ['cut short', text(good.slice(0, -1)), /not JSON/],
    ['UTF-16', Buffer.from(good, 'utf16le'), /not (UTF-8|JSON)/],
    ['Latin-1', Buffer.from('{"authorized_agents":[],"x":"\xe9"}', 'latin1'), /not UTF-8/],
    ['a list', text('[]'), /not a JSON object/],
    ['null', text('null'), /not a JSON object/],
    ['a string', text('"authorized_agents"'), /not a JSON object/],
    ['no agents', text('{"signals":[]}'), /authorized_agents is not an array/],
    ['agents of a wrong type', text('{"authorized_agents":{"0":{}}}'), /authorized_agents is not an array/],
    [
      'agents in a prototype',
      text('{"__proto__":{"authorized_agents":[]}}'),
      /authorized_agents is not an array/,
    ],
    ['deep arrays', text(`{"authorized_agents":[],"x":${'['.repeat(65)}${']'.repeat(65)}}`), /nests deeper/],
    [
      'nothing but brackets',
      text(`{"authorized_agents":[${'[],'.repeat(2_000_000)}[]]}`),
      /more than 2000000 lists/,
    ],
    ['deep objects', text(`{"authorized_agents":[],"x":${'{"a":'.repeat(100_000)}`), /nests deeper/],
  ]
  for (const [name, bytes, message] of files) {
    const inspection = inspect(bytes)
    t.equal(inspection.kind, 'invalid', name)
    t.match(inspection, { message })
    t.notMatch(JSON.stringify(inspection), /secret/)
  }
})

test('a byte order mark, brackets in strings and escaped quotes are no harm', async (t) => {
  t.equal(inspect(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text(good)])).kind, 'document')
  const strings = JSON.stringify({ authorized_agents: [], x: `${'['.repeat(100)}\\"${'{'.repeat(100)}` })
  t.equal(inspect(text(strings)).kind, 'document')
})

test('a pointer leads to an https url or nowhere', async (t) => {
  const pointer = (location: unknown) => inspect(text(JSON.stringify({ authoritative_location: location })))
  t.same(pointer('https://CDN.example/a.json'), { kind: 'pointer', target: 'https://cdn.example/a.json' })
  for (const bad of [
    'http://cdn.example/a.json',
    'file:///etc/passwd',
    'data:,{}',
    '//cdn.example/a',
    '/a.json',
    '',
    7,
    {},
    [],
  ]) {
    t.equal(pointer(bad).kind, 'bad_pointer', JSON.stringify(bad))
  }
})

test('a pointer beside entries is a pointer, and a superseded file points on to its successor', async (t) => {
  const both = { authoritative_location: 'https://cdn.example/a.json', authorized_agents: [] }
  t.equal(inspect(text(JSON.stringify(both))).kind, 'pointer')
  const superseded = { superseded_by: 'https://new.example/a.json', authorized_agents: [] }
  t.same(inspect(text(JSON.stringify(superseded))), { kind: 'pointer', target: 'https://new.example/a.json' })
})

test('200,000 signals and a name of the prototype are read like any other file', async (t) => {
  const signals = Array.from({ length: 200_000 }, (_, i) => ({
    id: `s${i}`,
    name: 'x',
    value_type: 'binary',
  }))
  const json = JSON.stringify({
    signals,
    authorized_agents: [
      {
        url: 'https://a.example/',
        authorized_for: 'x',
        authorization_type: 'signal_ids',
        signal_ids: ['s199999', '__proto__'],
      },
    ],
  })
  const file = compiled(json.replace('"s5"', '"__proto__","__proto__":{"polluted":true}'))
  t.match(decide(file, 's199999', 'https://a.example/', NOW), { outcome: 'authorized' })
  t.match(decide(file, '__proto__', 'https://a.example/', NOW), { outcome: 'authorized' })
  t.equal(({} as Record<string, unknown>).polluted, undefined)
})
