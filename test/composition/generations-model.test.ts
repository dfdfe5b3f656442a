/**
 * Processes that tell each other generations, at random: who builds changes, readings are held, fail and come late. Nobody ever
 * shows an older generation after a newer one, and when all is well again all show the newest.
 */
import fc from 'fast-check'
import { test } from 'tap'
import { proven } from '../support/proven.js'
import { createGroup, snapshotOf } from './support/process-group.js'

const NAMES = ['one', 'two', 'three'] as const
const RUNS = 50

type Name = (typeof NAMES)[number]

const who = fc.constantFrom(...NAMES)
const step = fc.oneof(
  fc.record({ kind: fc.constant('publish' as const) }),
  fc.record({
    kind: fc.constantFrom('build' as const, 'hold' as const, 'fail' as const, 'mend' as const),
    who,
  }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(2_000) }),
)

/** A process whose readings wait, or fail, as a test says. */
function createMember(group: ReturnType<typeof createGroup>, name: Name) {
  let isHeld = false
  let fails = false
  let waiting: (() => void)[] = []
  const member = group.join(name, {
    ...group.blobs,
    async read(blob) {
      if (isHeld) await new Promise<void>((resolve) => waiting.push(resolve))
      if (fails) throw new Error('cut off')
      return await group.blobs.read(blob)
    },
  })
  return {
    ...member,
    hold: () => {
      isHeld = true
    },
    fail: () => {
      fails = true
    },
    mend(): void {
      isHeld = false
      fails = false
      for (const proceed of waiting) proceed()
      waiting = []
    },
  }
}

const turns = async () => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
}

test('whatever happens to readings and to who builds, nobody goes back, and all come to the newest', async (t) => {
  await t.resolves(
    proven(
      t,
      RUNS,
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const group = createGroup()
        const members = new Map(NAMES.map((name) => [name, createMember(group, name)]))
        const order: string[] = [] // ids of what was published
        const shown = new Map<Name, number>()
        const wrong: string[] = []
        let builder: Name = 'one'
        group.build(builder)

        for (const [name, { feed }] of members) {
          const { publish } = feed
          feed.publish = (snapshot, ...more) => {
            const at = order.indexOf(snapshot.id)
            const before = shown.get(name) ?? -1
            if (at < before) wrong.push(`${name} went back from ${before} to ${at}`)
            shown.set(name, at)
            return publish(snapshot, ...more)
          }
        }

        async function publish(): Promise<void> {
          const snapshot = snapshotOf(`generation ${order.length}`)
          order.push(snapshot.id)
          await members.get(builder)?.publish(snapshot)
        }

        for (const one of steps) {
          if (one.kind === 'publish') await publish()
          else if (one.kind === 'pass') group.time.advance(one.ms)
          else if (one.kind === 'build') {
            builder = one.who
            group.build(builder)
          } else members.get(one.who)?.[one.kind]()
          await turns()
        }
        for (const { mend } of members.values()) mend()
        await publish()
        for (let second = 0; second < 3; second += 1) {
          group.time.advance(1_000)
          await turns()
        }
        const newest = order.at(-1)
        for (const [name, { feed, generations }] of members) {
          if (feed.current()?.id !== newest) wrong.push(`${name} does not show the newest`)
          if (generations.isBehind()) wrong.push(`${name} still counts as behind`)
          await generations.close()
        }
        if (wrong.length > 0) throw new Error(wrong.join('; '))
      }),
    ),
  )
})
