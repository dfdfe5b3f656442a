import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { decide } from '../../src/authz/rules/verdict.js'
import { createNames, findName, nameAt } from '../../src/process/shared-memory.js'
import { anyText } from '../support/any-text.js'
import { proven } from '../support/proven.js'
import { compiled } from './compiled.js'
import { AGENT } from './world.js'

const MAX_INSTANTS = 10_000 // docs/authorization.md

test('entries that would let a file change at more instants than are followed grant nothing', async (t) => {
  const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1_000).toISOString()
  const entry = (from: number, until: number, id = 's') => ({
    ...{ url: AGENT, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: [id] },
    ...{ effective_from: at(from), effective_until: at(until) },
  })
  const windows = Array.from({ length: MAX_INSTANTS / 2 }, (_, n) => entry(2 * n, 2 * n + 1, `s${n}`))
  const known = entry(0, 1, 'known')
  const file = {
    signals: ['s0', 'known', 'new', 'half'].map((id) => ({ id })),
    authorized_agents: [...windows, entry(0, MAX_INSTANTS, 'half'), known, entry(-2, -1, 'new')],
  }
  const tables = compiled(file).rules
  t.equal(tables?.boundariesPassed(Date.UTC(2030, 0, 1)), MAX_INSTANTS - 1)
  const during = Date.UTC(2026, 0, 1)
  const outcome = (id: string, now: number) => decide(compiled(file), id, AGENT, now).outcome
  t.equal(outcome('s0', during), 'authorized')
  t.equal(outcome('known', during), 'authorized', 'the instants of one entry are also those of others')
  t.equal(outcome('half', during), 'unauthorized')
  t.equal(outcome('new', during - 1_500), 'unauthorized')
  const skipped = tables?.diagnostics.filter(({ effect }) => effect === 'skipped')
  t.same(
    skipped?.map(({ at }) => at),
    [0, 2].map((n) => `/authorized_agents/${windows.length + n}`),
  )
})

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

const MAX_GRANTS = 32 // of one name to one agent

type Named = { url: string; authorization_type: string; names: string[] }

/** The indices of the entries behind each name that an agent is granted, as the file's own order gives them. */
function grantsIn(entries: readonly Named[]): Map<string, number[]> {
  const found = new Map<string, number[]>()
  for (const [index, { url, authorization_type: by, names }] of entries.entries()) {
    for (const name of new Set(names)) {
      const key = `${url} ${by} ${name}`
      const behind = found.get(key) ?? []
      if (behind.length < MAX_GRANTS) found.set(key, [...behind, index])
    }
  }
  return found
}

test('behind each granted name stand the entries that name it, in whatever order they do', async (t) => {
  const entry = fc.record({
    url: fc.constantFrom('https://a.example/', 'https://b.example/'),
    authorization_type: fc.constantFrom('signal_ids', 'signal_tags'),
    names: fc.array(fc.constantFrom('n0', 'n1', 'n2', 'n3', 'n4', 'n5', 'n6'), {
      minLength: 1,
      maxLength: 30,
    }),
  })
  const entries = fc.oneof(
    fc.array(entry, { maxLength: 12 }),
    fc.array(entry, { minLength: 100, maxLength: 150 }),
  )
  proven(
    t,
    100,
    fc.property(entries, (list) => {
      const authorized_agents = list.map(({ names, ...rest }) => ({
        ...{ ...rest, authorized_for: 'x', [rest.authorization_type]: names },
      }))
      const { rules } = compiled({ signals: [{ id: 'n5' }, { id: 'n2' }], authorized_agents })
      const named = [...(rules?.namedGrants() ?? [])].map(
        ({ agent, by, name, grants }) =>
          [`${agent} ${by} ${name}`, grants.map((each) => each.entry)] as const,
      )
      assert.equal(new Set(named.map(([key]) => key)).size, named.length, 'each name once')
      assert.deepEqual(new Map(named), grantsIn(list))
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
