/** Subscribers are told of a generation when all processes that they may ask show it, and no process keeps it from them for long. */
import { test } from 'tap'
import { LEASE_LASTS_MS } from '../../src/store/replicas/leases.js'
import { createShown } from '../../src/store/replicas/shown.js'
import type { Hear } from '../../src/upstreams/rows/storage.js'
import { createManualClock } from '../support/upstream-clock.js'

/** Processes that hear each other at once. */
function processes(...names: string[]) {
  const { clock, advance } = createManualClock()
  const hears: Hear[] = []
  const turns: (() => void)[] = []
  const live = [...names]
  const sharing = {
    async tell(name: string, value: unknown) {
      for (const hear of hears) hear(name, value, 0, 1)
      return true
    },
    hear: (_prefix: string, listener: Hear) => void hears.push(listener),
    onTurns: (listener: () => void) => void turns.push(listener),
  }
  const all = names.map((self) => {
    let times = 0
    const onEverywhere = () => {
      times += 1
    }
    const shown = createShown({ sharing, prefix: 'shown/', self, members: () => live, clock, onEverywhere })
    return { ...shown, times: () => times }
  })
  return {
    all,
    advance,
    end(name: string): void {
      live.splice(live.indexOf(name), 1)
      for (const listener of turns) listener()
    },
  }
}

type Shown = ReturnType<typeof processes>['all'][number]

/** Three that show the first generation. */
function three() {
  const { all, ...rest } = processes('a', 'b', 'c')
  for (const one of all) one.show('first')
  return { ...rest, all: all as [Shown, Shown, Shown] }
}

test('a generation is everywhere when the last of them shows it, and whoever asks is told so once', (t) => {
  const { all } = three()
  const [a, b, c] = all
  const before = a.times()
  for (const one of [a, b]) one.show('second')
  for (const one of all) t.notOk(one.isEverywhere(), 'also not for whoever still shows the one before')
  t.equal(a.times(), before)
  c.show('second')
  for (const one of all) t.ok(one.isEverywhere())
  t.equal(a.times(), before + 1)
  for (const one of all) one.tell()
  t.equal(a.times(), before + 1)
  t.end()
})

test('a process that has ended is not waited for', (t) => {
  const { all, end } = three()
  const [a, b] = all
  for (const one of [a, b]) one.show('second')
  const before = a.times()
  end('c')
  t.ok(a.isEverywhere())
  t.equal(a.times(), before + 1)
  t.end()
})

test('nor for long is one that lives and does not come to show it, until it does; the others are', (t) => {
  const { all, advance } = three()
  const [a, b, c] = all
  for (const one of [a, b]) one.show('second')
  advance(LEASE_LASTS_MS - 1)
  t.notOk(a.isEverywhere())
  const before = a.times()
  advance(1)
  t.ok(a.isEverywhere())
  t.equal(a.times(), before + 1)
  a.show('third')
  t.notOk(a.isEverywhere(), 'the second process keeps up')
  b.show('third')
  t.ok(a.isEverywhere())
  c.show('third')
  for (const one of [a, b]) one.show('fourth')
  t.notOk(a.isEverywhere(), 'the third one has caught up')
  t.end()
})

test('one that has not said yet what it shows is not waited for, nor for what has no name', (t) => {
  const { all } = processes('a', 'of an earlier release')
  const a = all[0] as Shown
  a.show('first')
  t.ok(a.isEverywhere())
  a.show(undefined)
  t.ok(a.isEverywhere())
  t.equal(a.times(), 2)
  t.end()
})
