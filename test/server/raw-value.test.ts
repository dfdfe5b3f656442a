import fc from 'fast-check'
import { test } from 'tap'
import { createBodyReader } from '../../src/server/answer/body-reader.js'
import { rawValue } from '../../src/server/answer/json-rpc.js'
import { costRatio } from '../support/cost-ratio.js'
import { proven } from '../support/proven.js'

test('the text at a path parses to the value at that path, for any JSON in any spacing', (t) => {
  const spacing = fc.constantFrom(undefined, 1, '\t')
  const property = fc.property(fc.jsonValue(), fc.string(), spacing, (value, key, indent) => {
    const text = JSON.stringify({ before: [1, '"}'], [key]: [null, { in: value }], after: 0 }, null, indent)
    const parsed = JSON.parse(text)
    const raw = rawValue(text, [key, 1, 'in'])
    if (!Array.isArray(parsed[key])) return true // the key was one of ours and came later
    return raw !== undefined && JSON.stringify(JSON.parse(raw)) === JSON.stringify(parsed[key][1].in)
  })
  proven(t, 500, property)
  t.pass('every value was found')
  t.end()
})

test('what is not there is undefined, and of duplicates the last counts', (t) => {
  t.equal(rawValue('{"a":{"b":1}}', ['a', 'c']), undefined)
  t.equal(rawValue('{"a":[1]}', ['a', 1]), undefined)
  t.equal(rawValue('{"a":[1]}', ['a', 'b']), undefined)
  t.equal(rawValue('"a"', ['a']), undefined)
  t.equal(rawValue('{"a":1,"\\u0061":2.0}', ['a']), '2.0')
  t.equal(rawValue(' { "a" : -1.50e3 } ', ['a']), '-1.50e3')
  t.equal(rawValue(' [ true ,"x"] ', [0]), 'true')
  t.equal(rawValue('{"é":"ü€😀","ß":"é😀"}', ['ß']), '"é😀"', 'characters of several bytes')
  t.end()
})

test('a value deep inside costs no more than one at the top: the bytes are looked at once', async (t) => {
  const deep = 30
  const digits = '1'.repeat(200_000)
  const text = (levels: number) => `${'{"a":'.repeat(levels)}${digits}${'}'.repeat(levels)}`
  const work = (levels: number) => {
    const [json, path] = [text(levels), Array.from({ length: levels }, () => 'a')]
    return () => void rawValue(json, path)
  }
  t.equal(
    rawValue(
      text(deep),
      Array.from({ length: deep }, () => 'a'),
    ),
    digits,
  )
  const ratio = await costRatio({ work: work(1), times: 10 }, { work: work(deep), times: 10 }, 4)
  t.ok(ratio < 4, `${deep} levels cost ${ratio} times as much`)
})

test('the ids of a batch are found in one pass, and each message has its own', async (t) => {
  const read = createBodyReader()
  const batch = (messages: number) => {
    const message = (at: number) => {
      const room = '1'.repeat(600_000 / messages)
      return `{"jsonrpc":"2.0","id":1000000000000000000000${at},"method":"m","params":{"é":[1.0],"room":${room}}}`
    }
    return Buffer.from(` [ ${Array.from({ length: messages }, (_, at) => message(at)).join(' , ')} ] `)
  }
  const body = read(batch(3))
  const messages = body.kind === 'batch' ? body.messages : []
  t.same(
    messages.map((one) => one.kind === 'request' && [one.id, one.raw(['params', 'é', 0])]),
    [0, 1, 2].map((at) => [`1000000000000000000000${at}`, '1.0']),
  )
  const work = (count: number) => {
    const bytes = batch(count)
    return () => void read(bytes)
  }
  const ratio = await costRatio({ work: work(2), times: 5 }, { work: work(50), times: 5 }, 3)
  t.ok(ratio < 3, `25 times as many messages in as many bytes cost ${ratio} times as much`)
})
