/** What options of the command line take, and what they refuse with what was expected. */
import { InvalidArgumentError } from 'commander'
import { test } from 'tap'
import { copyPlace, httpsUrl, moment } from '../../src/commands/terminal.js'

const NOW = Date.parse('2026-11-30T12:00:00Z')
const read = moment(() => NOW)

test('a moment is a day that there is, a time of one, or an age', (t) => {
  const times = ['2026-11-20', '2024-02-29', '2026-11-30T07:29:28Z', '2026-11-30T07:29:28.5+02:00']
  for (const text of times) t.equal(read(text), Date.parse(text), text)
  t.equal(read('90m'), NOW - 90 * 60_000)
  for (const text of [
    '2026-02-30',
    '2026-02-29',
    '2026-02-30T00:00:00Z',
    '2026-13-01',
    '2026-11-20T25:00Z',
    '20 soon',
    '1',
    '',
  ]) {
    t.throws(() => read(text), InvalidArgumentError, text)
  }
  t.end()
})

test('what an agent is to post to is an https url', (t) => {
  t.equal(httpsUrl('https://mirror.acme.example/told'), 'https://mirror.acme.example/told')
  for (const text of ['http://mirror.acme.example', 'mirror.acme.example', 'ftp://x', 'https://']) {
    t.throws(() => httpsUrl(text), InvalidArgumentError, text)
  }
  t.end()
})

test('a copy is kept in a folder or PostgreSQL, and a url of anything else is no folder', (t) => {
  for (const text of [
    './copy',
    '/var/copy',
    'C:\\copy',
    'a:b',
    'postgres://me@db/copy',
    'postgresql://db/copy',
  ]) {
    t.equal(copyPlace(text), text)
  }
  for (const text of ['mysql://db/copy', 'file:///var/copy', 'https://db.example', 'Postgres+ssl://db']) {
    t.throws(() => copyPlace(text), InvalidArgumentError, text)
  }
  t.end()
})
