import fc from 'fast-check'
import { test } from 'tap'
import { inspect } from '../../src/authz/provider/inspector.js'
import { compileProvider, decide } from '../../src/authz/rules/verdict.js'
import { proven } from '../support/proven.js'
import { AGENT, createWorld, DAY, granting, HOUR, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`
const EVIL = 'https://cdn2.example/evil'
const SIGNALS = ['s1', 's2', 's3']

type Step =
  | { do: 'publish'; ids: string[]; forget: boolean } // a new version; `forget`: without its date
  | { do: 'replay'; back: number } // an old version
  | { do: 'fail'; status: number }
  | { do: 'break' } // a page that is no file
  | { do: 'remove' }
  | { do: 'point' } // a pointer to a file that grants everything
  | { do: 'restart' }
  | { do: 'wait'; ms: number }

/**
 * The rules of docs/protocol.md#provider-files once more, in the plainest terms: which signals may at most be
 * authorized now. It knows nothing of records, validators or threads.
 */
function createOracle(start: number) {
  let granted: readonly string[] = []
  let floor: { date: number; until: number } | undefined
  let good = Number.NEGATIVE_INFINITY
  let failing: number | undefined
  let pointing: number | undefined
  let now = start
  return {
    tick: (ms: number) => {
      now += ms
    },
    file(ids: readonly string[], date: number | undefined) {
      pointing = undefined
      if (floor && now < floor.until && date !== undefined && date < floor.date) {
        failing ??= now
        return
      }
      const kept = floor && now < floor.until ? floor.date : undefined
      const next = date ?? kept
      floor = next === undefined ? undefined : { date: next, until: now + 7 * DAY }
      granted = ids
      good = now
      failing = undefined
    },
    failure() {
      failing ??= now
    },
    noFile() {
      pointing = undefined
      granted = []
      failing = undefined
    },
    pointer() {
      pointing ??= now
      failing = undefined
      // Long enough the same, or nothing left to remember it against: from then on the target speaks.
      if (now >= pointing + DAY || now >= good + 7 * DAY) granted = SIGNALS
    },
    allowed(): readonly string[] {
      if (granted.length < SIGNALS.length && now >= good + 7 * DAY) return []
      if (granted.length < SIGNALS.length && failing !== undefined && now >= failing + DAY) return []
      return granted
    },
    get stopped() {
      return granted.length === SIGNALS.length // the pointer was rightly followed: the story ends here
    },
  }
}

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('publish' as const),
      ids: fc.subarray(['s1', 's2']),
      forget: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('replay' as const), back: fc.integer({ min: 1, max: 5 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('fail' as const), status: fc.constantFrom(500, 503, 429, 403) }),
  },
  { weight: 1, arbitrary: fc.constant({ do: 'break' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'remove' as const }) },
  { weight: 3, arbitrary: fc.constant({ do: 'point' as const }) },
  { weight: 2, arbitrary: fc.constant({ do: 'restart' as const }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: HOUR, max: 40 * HOUR }) }),
  },
)

test('no sequence of versions, failures, pointers and restarts authorizes what is not granted', async (t) => {
  let authorizations = 0
  const story = async (steps: Step[]) => {
    const world = await createWorld()
    const oracle = createOracle(world.clock.now())
    const versions: { ids: string[]; date: number | undefined }[] = []
    let effect = () => oracle.noFile()
    world.web.page('cdn2.example/evil', { body: granting(SIGNALS) })
    world.providers().want(named(['p.example']))
    await world.providers().settled()

    const publish = (version: (typeof versions)[number]) => {
      const { ids, date } = version
      const dated = date === undefined ? {} : { last_updated: new Date(date).toISOString() }
      const etag = `"${versions.indexOf(version)}"`
      world.web.page(P, { body: granting(ids, dated), headers: { etag } })
      effect = () => oracle.file(ids, date)
    }

    try {
      for (const each of steps) {
        if (each.do === 'publish') {
          versions.push({
            ids: each.ids,
            date: each.forget ? undefined : world.clock.now() - HOUR + versions.length,
          })
          publish(versions.at(-1) as (typeof versions)[number])
        } else if (each.do === 'replay') {
          const version = versions.at(-each.back)
          if (version) publish(version)
        } else if (each.do === 'fail') {
          world.web.page(P, { status: each.status })
          effect = () => oracle.failure()
        } else if (each.do === 'break') {
          world.web.page(P, { body: '<html>' })
          effect = () => oracle.failure()
        } else if (each.do === 'remove') {
          world.web.gone(P)
          effect = () => oracle.noFile()
        } else if (each.do === 'point') {
          world.web.page(P, { body: { authoritative_location: EVIL } })
          effect = () => oracle.pointer()
        } else if (each.do === 'restart') {
          const providers = await world.restart()
          providers.want(named(['p.example']))
        } else {
          world.jump(each.ms)
          oracle.tick(each.ms)
        }
        await world.providers().refresh('p.example')
        effect()
        if (oracle.stopped) return
        const state = world.providers().state('p.example')
        const compiled = compileProvider(state ?? { domain: 'p.example' })
        for (const signal of SIGNALS) {
          const { outcome } = decide(compiled, signal, AGENT, world.clock.now())
          if (outcome !== 'authorized') continue
          authorizations += 1
          if (!oracle.allowed().includes(signal)) throw new Error(`${signal} is authorized after ${each.do}`)
        }
      }
    } finally {
      await world.close()
    }
  }
  await proven(t, 10, fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 24 }), story))
  t.ok(authorizations > 0, `${authorizations} authorizations, each of them granted`)
})

test('no document, however odd, grants what no entry of it names', async (t) => {
  const odd = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom('s1', 'auto', AGENT, '__proto__'))
  /** Mostly in order, so that a good part of the files grants something. */
  const mostly = <T>(right: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 5, arbitrary: right }, { weight: 1, arbitrary: odd })
  const names = fc.array(mostly(fc.constantFrom('s1', 's2', 'auto', 'other')), { maxLength: 3 })
  const entry = fc.record(
    {
      url: mostly(fc.constantFrom(AGENT, `${AGENT}/`, 'https://AGENT.example/mcp')),
      authorized_for: odd,
      authorization_type: mostly(fc.constantFrom('signal_ids', 'signal_tags', 'property_ids')),
      signal_ids: mostly(names),
      signal_tags: mostly(names),
      countries: mostly(fc.constant(['US'])),
      effective_until: mostly(fc.constantFrom('2030-01-01T00:00:00Z', '2020-01-01T00:00:00Z')),
    },
    { requiredKeys: ['url', 'authorization_type'] },
  )
  const signal = fc.record({ id: fc.constantFrom('s1', 's2'), tags: mostly(names) }, { requiredKeys: ['id'] })
  const file = fc.record({
    signals: mostly(fc.array(mostly(signal), { maxLength: 4 })),
    authorized_agents: mostly(fc.array(mostly(entry), { maxLength: 4 })),
  })
  const isStringList = (value: unknown): value is string[] => Array.isArray(value)
  const now = Date.parse('2026-03-01T00:00:00Z')
  let authorized = 0
  proven(
    t,
    450,
    fc.property(file, (value) => {
      const bytes = new TextEncoder().encode(JSON.stringify(value))
      const inspection = inspect(bytes)
      if (inspection.kind !== 'document') return
      const { digest, tables } = inspection
      const document = { url: 'x', fetchedAt: now, digest, bytes, tables }
      const compiled = compileProvider({ domain: 'p.example', document, expiresAt: now + 1 })
      for (const id of ['s1', 's2']) {
        const verdict = decide(compiled, id, AGENT, now)
        if (verdict.outcome !== 'authorized') continue
        authorized += 1
        const rows = (value.signals as { id: string; tags?: unknown }[]).filter((row) => row?.id === id)
        for (const index of verdict.entries) {
          const { authorization_type: type, ...found } =
            (value.authorized_agents as Record<string, unknown>[])[index] ?? {}
          const list = found[type as string]
          const byId = type === 'signal_ids' && isStringList(list) && list.includes(id)
          const byTag =
            type === 'signal_tags' &&
            isStringList(list) &&
            list.some((tag) => rows.every((row) => isStringList(row.tags) && row.tags.includes(tag)))
          if (!byId && !byTag) throw new Error(`${id} by entry ${index}`)
          if (!['https://agent.example/mcp', 'https://AGENT.example/mcp'].includes(found.url as string))
            throw new Error('url')
          if (found.countries !== undefined && !verdict.countries && verdict.entries.length === 1)
            throw new Error('countries')
          if (found.effective_until !== undefined && found.effective_until !== '2030-01-01T00:00:00Z')
            throw new Error('window')
        }
      }
    }),
  )
  t.ok(authorized > 0, `${authorized} authorizations`)
})
