import fc from 'fast-check'
import { test } from 'tap'
import { rawValue } from '../../src/server/answer/json-rpc.js'
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
