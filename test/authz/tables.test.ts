import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { createNames, findName, nameAt } from '../../src/authz/rules/name-table.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'
import { compiled } from './compiled.js'
import { AGENT } from './world.js'

test('every name has its number, and nothing else has one', async (t) => {
  const names = fc.uniqueArray(fc.oneof(anyText(), fc.string()), { maxLength: 60 })
  proven(
    t,
    200,
    fc.property(names, fc.string(), (list, other) => {
      const wellFormed = list.filter((name) => !/\p{Surrogate}/u.test(name))
      const building = createNames()
      for (const name of wellFormed) building.add(name)
      const table = building.table()
      for (const [number, name] of wellFormed.entries()) {
        assert.equal(findName(table, name), number)
        assert.equal(nameAt(table, number), name)
      }
      assert.equal(findName(table, other), wellFormed.indexOf(other))
    }),
  )
  t.pass('each was found, and no other')
})

test('a definition is parsed from its own bytes, whatever stands around it', async (t) => {
  const text = `{"signals": [{"id":"s0"}], "\\u0073ignals" :\n[ 7 , {"id":"a","name":"Ü ]}\\"","value_type":"binary"} ,{"id":"b"}],
    "authorized_agents":[{"url":"${AGENT}","authorized_for":"x","authorization_type":"signal_ids","signal_ids":["a"]}]}`
  const { rules } = compiled(text)
  t.equal(rules?.signalNumber('s0'), -1, 'of two members the last counts')
  t.same(rules?.signal(rules.signalNumber('a')).row, { id: 'a', name: 'Ü ]}"', value_type: 'binary' })
  t.same(rules?.signal(rules.signalNumber('b')), { id: 'b', tags: [], row: { id: 'b' }, index: 2 })
})
