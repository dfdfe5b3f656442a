import fc from 'fast-check'
import { test } from 'tap'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { type Snapshot, snapshotFrom, snapshotParts } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import { anyWorld } from './arbitrary.js'
import { everything } from './everything.js'
import { judgeThat, listing, sliceOf } from './world.js'

/** Written to a file and read again: the bytes only. */
function saved(snapshot: Snapshot): Snapshot | undefined {
  return snapshotFrom(snapshotParts(snapshot).map((part) => Uint8Array.from(part)))
}

test('a build on a snapshot that was saved gives what a build from scratch gives, to the byte', (t) => {
  proven(
    t,
    15,
    fc.property(fc.array(anyWorld, { minLength: 2, maxLength: 3 }), (worlds) => {
      let previous: Snapshot | undefined
      for (const { slices, judge } of worlds) {
        const scratch = buildSnapshot({ slices, judge })
        const next = buildSnapshot({ ...(previous && { previous }), slices, judge })
        if (everything(next) !== everything(scratch)) throw new Error('the builds differ')
        previous = saved(next)
        if (!previous || everything(previous) !== everything(next))
          throw new Error('it was not read as it was')
      }
    }),
  )
  t.end()
})

test('on the same rows and verdicts nothing is merged again', (t) => {
  const asked: string[] = []
  const judge = judgeThat({
    decide(id) {
      asked.push(id)
      return { outcome: 'authorized', entries: [0] }
    },
  })
  const slices = () => [
    sliceOf('north', [listing('a'), listing('b')]),
    sliceOf('south', [listing('b'), listing('c')]),
  ]
  const previous = saved(buildSnapshot({ slices: slices(), judge }))
  t.same(asked.splice(0).sort(), ['a', 'b', 'b', 'c'])
  const next = buildSnapshot({ ...(previous && { previous }), slices: slices(), judge })
  t.same(asked, [])
  t.equal(next.rows, previous?.rows)
  t.end()
})

test('what another release saved is not believed, nor what is not a snapshot', (t) => {
  const [head = new Uint8Array(), ...parts] = snapshotParts(
    buildSnapshot({ slices: [sliceOf('north', [listing('a')])], judge: judgeThat() }),
  )
  const header = JSON.parse(Buffer.from(head).toString())
  const another = Buffer.from(JSON.stringify({ ...header, format: header.format + 1 }))
  t.ok(snapshotFrom([head, ...parts]))
  t.equal(snapshotFrom([another, ...parts]), undefined)
  t.equal(snapshotFrom([]), undefined)
  t.end()
})
