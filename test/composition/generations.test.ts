/** Generations that processes tell each other: what a walk finds at another process, and what stays in the storage. */
import { pino } from 'pino'
import { test } from 'tap'
import { createPublisher } from '../../src/composition/publishing.js'
import type { World, Worlds } from '../../src/composition/world.js'
import { type Gap, overlayName } from '../../src/feed/query.js'
import { createBuilderHost } from '../../src/snapshot/builder-host.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { type Blobs, type Turn, UNSAID } from '../../src/upstreams/rows/storage.js'
import { pageOf } from '../feed/reader.js'
import { agentUrl, buyer, listing, sliceOf } from '../feed/world.js'
import { until } from '../support/upstream-world.js'
import { createGroup, SNAPSHOTS, snapshotOf } from './support/process-group.js'

/** How often what is read, beside reading it. */
function counted(blobs: Blobs) {
  const reads: string[] = []
  const read = (name: string) => {
    reads.push(name)
    return blobs.read(name)
  }
  return { reads, blobs: { ...blobs, read } }
}

const areFound = Promise.resolve(true)

/** Each reading waits until it is answered, in their order. */
function held(blobs: Blobs) {
  const waiting: (() => void)[] = []
  const read = async (name: string) => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    return await blobs.read(name)
  }
  return { waiting, answer: () => waiting.shift()?.(), blobs: { ...blobs, read } }
}

test('a walk whose snapshot is gone is told so after one look, however many come', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  await one.publish(snapshotOf('before'))
  const { cursor = '' } = one.page()
  for (const name of await group.blobs.list(SNAPSHOTS)) await group.blobs.remove(name)
  const { reads, blobs } = counted(group.blobs)
  const two = group.join('two', blobs)
  two.feed.publish(snapshotOf('now'), group.time.clock.now())
  await Promise.all([two.recall(cursor), two.recall(cursor), two.recall(cursor)]) // no time passes
  t.equal(reads.length, 1)
  t.equal(two.page(cursor).count, 1, 'it goes on in the current one')
})

test('a process ends at once while it waits to take up what cannot be read', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const cut = group.join('two', { ...group.blobs, read: () => Promise.reject(new Error('cut off')) })
  await one.publish(snapshotOf('now'))
  await until('it is told', () => cut.troubles.length > 0)
  t.same(cut.troubles, ['a generation could not be taken up: cut off'])
  await cut.generations.close() // no time passes
})

test('a start waits until what was told is taken up, or cannot be', async (t) => {
  const group = createGroup()
  group.build('one')
  const { answer, blobs } = held(group.blobs)
  const slow = group.join('two', blobs)
  const cut = group.join('three', { ...group.blobs, read: () => Promise.reject(new Error('cut off')) })
  await slow.generations.tried() // nothing was told
  await group.join('one').publish(snapshotOf('now'))
  let isTaken = false
  const taken = slow.generations.tried().then(() => {
    isTaken = true
  })
  await cut.generations.tried() // no time passes
  t.notOk(isTaken)
  answer()
  await taken
  t.ok(slow.feed.current())
  await cut.generations.close()
})

test('what was replaced while it was read is shown until the newer one is read, too', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const { waiting, answer, blobs } = held(group.blobs)
  const slow = group.join('two', blobs)
  const [first, second] = [snapshotOf('first'), snapshotOf('second')]
  await one.publish(first)
  await one.publish(second)
  answer()
  await slow.generations.tried()
  t.equal(slow.feed.current()?.id, first.id)
  await until('it reads the newer one', () => waiting.length > 0)
  answer()
  await until('it is shown', () => slow.feed.current()?.id === second.id)
  t.notOk(slow.generations.isBehind())
})

test('what was being read when a process became the builder is not shown in the place of what it built', async (t) => {
  const group = createGroup()
  group.build('one')
  const { answer, blobs } = held(group.blobs)
  const two = group.join('two', blobs)
  await group.join('one').publish(snapshotOf('of another'))
  group.build('two')
  const own = snapshotOf('its own')
  await two.publish(own)
  answer()
  await two.generations.tried()
  t.equal(two.feed.current()?.id, own.id)
})

test('a walk is not moved to another snapshot because the storage does not answer', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  await one.publish(snapshotOf('before'))
  const { cursor = '' } = one.page()
  const cut = group.join('two', { ...group.blobs, read: () => Promise.reject(new Error('cut off')) })
  cut.feed.publish(snapshotOf('now'), group.time.clock.now())
  t.equal(await cut.recall(cursor), false)
  const { answer, blobs } = held(group.blobs)
  const slow = group.join('three', blobs)
  slow.feed.publish(snapshotOf('now'), group.time.clock.now())
  const asked = slow.recall(cursor)
  await group.time.advance(5_000)
  t.equal(await asked, false, 'nobody waits longer')
  const again = slow.recall(cursor)
  answer()
  t.equal(await again, true, 'who comes again finds what was read meanwhile')
})

test('later pages tell what their snapshot lacks, at every process, which reads it once', async (t) => {
  const group = createGroup()
  const gaps: Gap[] = [
    { kind: 'others', carried: new Set([agentUrl('north')]) },
    { kind: 'part', agentUrl: agentUrl('north'), part: 'pricing' },
  ]
  group.build('one')
  const one = group.join('one')
  await one.publish(snapshotOf('before'), gaps)
  const { cursor = '' } = one.page()
  const { reads, blobs } = counted(group.blobs)
  const two = group.join('two', blobs)
  two.feed.publish(snapshotOf('now'), group.time.clock.now())
  await Promise.all([two.recall(cursor), two.recall(cursor)])
  t.same(two.page(cursor).gaps, gaps)
  t.equal(reads.length, 1)
  t.equal(two.feed.retained().snapshots, 1)
  t.equal(two.recall(cursor), undefined, 'it is there')
})

test('a snapshot that comes back while it is removed is there for the others', async (t) => {
  const group = createGroup()
  const [old, other] = [snapshotOf('one'), snapshotOf('two')]
  let removing = () => {}
  const begun = new Promise<void>((resolve) => {
    removing = resolve
  })
  let proceed = () => {}
  const may = new Promise<void>((resolve) => {
    proceed = resolve
  })
  const slow: Blobs = {
    ...group.blobs,
    async remove(name) {
      removing()
      await may
      await group.blobs.remove(name)
    },
  }
  group.build('one')
  const one = group.join('one', slow)
  await one.publish(old)
  await one.publish(other)
  for (let minute = 0; minute < 22; minute += 1) {
    await group.minutes(1)
  }
  await begun
  const two = group.join('two')
  const back = one.publish(old)
  await new Promise(setImmediate)
  proceed()
  await back
  t.ok(await group.blobs.read(`${SNAPSHOTS}${old.id}`))
  await until('another takes it up', () => two.feed.current()?.id === old.id)
  t.same(two.troubles, [])
})

test('snapshots in which somebody walks go 20 minutes after they were in use, also those that another builder used meanwhile', async (t) => {
  const group = createGroup()
  const [first, second] = [snapshotOf('one'), snapshotOf('two')]
  const one = group.join('one')
  const two = group.join('two')
  const kept = async () => (await group.blobs.list(SNAPSHOTS)).length
  group.build('one')
  await one.publish(first)
  one.page()
  await one.publish(second)
  await group.minutes(15)
  group.build('two')
  await two.publish(first)
  await group.minutes(1)
  await two.publish(second)
  group.build('one')
  await group.minutes(10)
  t.equal(await kept(), 2, 'the first was in use ten minutes ago')
  await group.minutes(12)
  t.equal(await kept(), 1)
})

test('what was begun in one turn is not told in a later one: another process may have built something newer', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const two = group.join('two')
  const under = one.generations.turn() as Turn
  const begun = {
    open: { snapshot: snapshotOf('begun'), gaps: [] },
    accounts: new Map(),
    definitions: new Map(),
  }
  group.build('two')
  const newer = snapshotOf('newer')
  await two.publish(newer)
  await until('it is taken up', () => one.feed.current()?.id === newer.id)
  group.build('one')
  t.notOk(await one.generations.tell(begun, under, areFound))
  await new Promise(setImmediate)
  t.equal(two.feed.current()?.id, newer.id)
})

test('a generation is saved while its rows are, and told after them', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const two = group.join('two')
  const snapshot = snapshotOf('begun')
  let rowsAreFound = (_: boolean) => {}
  const telling = one.generations.tell(
    { open: { snapshot, gaps: [] }, accounts: new Map(), definitions: new Map() },
    one.generations.turn() as Turn,
    new Promise((resolve) => (rowsAreFound = resolve)),
  )
  const isSaved = async () => (await group.blobs.list(SNAPSHOTS)).length > 0
  while (!(await isSaved())) await new Promise(setImmediate)
  await new Promise(setImmediate)
  t.equal(two.feed.current(), undefined)
  rowsAreFound(true)
  t.ok(await telling)
  await until('it is taken up', () => two.feed.current()?.id === snapshot.id)
})

test('nor ever, where whoever builds next would not find its rows', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const two = group.join('two')
  const telling = one.generations.tell(
    { open: { snapshot: snapshotOf('lost'), gaps: [] }, accounts: new Map(), definitions: new Map() },
    one.generations.turn() as Turn,
    Promise.resolve(false),
  )
  await t.rejects(telling)
  t.equal(two.feed.current(), undefined)
})

test('nor shown where the word that it was told comes late', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const two = group.join('two')
  const [begun, newer] = [snapshotOf('begun'), snapshotOf('newer')]
  let proceed = () => {}
  group.written.before = () => new Promise((resolve) => (proceed = resolve))
  const telling = one.generations.tell(
    { open: { snapshot: begun, gaps: [] }, accounts: new Map(), definitions: new Map() },
    one.generations.turn() as Turn,
    areFound,
  )
  group.written.before = async () => {}
  group.build('two')
  await two.publish(newer)
  await until('it is taken up', () => one.feed.current()?.id === newer.id)
  group.build('one')
  proceed()
  t.notOk(await telling)
  group.build('two')
  t.equal(one.feed.current()?.id, newer.id)
})

test('who becomes the builder again builds again: the others show what somebody else built', async (t) => {
  const group = createGroup()
  const { feed, generations } = group.join('one')
  const listeners: (() => void)[] = []
  const world: World = {
    revision: 1,
    open: { slices: [sliceOf('north', [listing('a')])], gaps: [] },
    accounts: new Map(),
    isCurrent: () => true,
    providers: [],
    policy: { policy: 'observe', providers: {} },
    now: group.time.clock.now(),
  }
  const worlds: Worlds = {
    moved() {
      world.revision += 1
      for (const listener of listeners) listener()
    },
    revision: () => world.revision,
    movedAt: () => undefined,
    current: () => world,
    onMove: (listener) => void listeners.push(listener),
  }
  let published = 0
  let loads = 0
  let failures = 0
  const builder = createBuilderHost()
  const publisher = createPublisher({
    isComing: () => false,
    ...{ worlds, builder, feed, generations, clock: group.time.clock, random: () => 0 },
    rows: {
      async loaded() {
        loads += 1
      },
      areFound: async () => true,
    },
    log: pino({ level: 'silent' }),
    onPublished: () => {
      published += 1
    },
    onFailure: () => {
      failures += 1
    },
  })
  t.teardown(async () => {
    await publisher.close()
    await builder.close()
  })
  const bases: Snapshot[] = []
  const { restore } = builder
  builder.restore = (snapshot) => {
    bases.push(snapshot)
    restore(snapshot)
  }
  group.build('one')
  await publisher.open()
  const mine = feed.current()?.id
  worlds.moved()
  await until('its own is built again', () => published === 2)
  group.build('two')
  const two = group.join('two')
  const theirs = snapshotOf('of another world')
  await two.publish(theirs)
  await until('it is taken up', () => feed.current()?.id !== mine)
  group.build('one')
  await until('its own again', () => feed.current()?.id === mine)
  t.equal(published, 3)
  t.same(
    bases.map(({ id }) => id),
    [theirs.id],
    'on what the others hold',
  )
  t.equal(loads, 2, 'each time with the rows that others had told of by then')

  group.build('two', false)
  await two.publish(snapshotOf('of another world again'))
  await until('it is taken up', () => feed.current()?.id !== mine)
  group.build('one', false)
  t.equal(publisher.revisions().built, 0)
  worlds.moved()
  await until('its own once more', () => feed.current()?.id === mine)
  t.equal(loads, 3, 'also before it hears that the turn is another')
  t.equal(failures, 0)

  group.build('two')
  await two.publish(snapshotOf('what cannot be heard of'))
  await until('it is taken up', () => feed.current()?.id !== mine)
  group.state.hears = false
  group.build('one')
  await until('it may have older rows', () => failures === 1)
  t.not(feed.current()?.id, mine)
  group.state.hears = true
  group.time.advance(10_000)
  await until('its own at last', () => feed.current()?.id === mine)
})

test('snapshots of another form stay as long as somebody reads that form, and go 20 minutes later', async (t) => {
  const group = createGroup()
  const foreign = 'form/99/snapshot/of-a-newer-release'
  await group.blobs.write(foreign, [])
  group.otherForms.add(99)
  group.build('one')
  const one = group.join('one')
  await one.publish(snapshotOf('one'))
  await group.minutes(30)
  t.ok(await group.blobs.read(foreign))
  group.otherForms.clear()
  await group.minutes(22)
  t.notOk(await group.blobs.read(foreign))
  t.equal((await group.blobs.list(SNAPSHOTS)).length, 1)
})

test('a feed that never rests keeps the snapshots in which somebody walks, at whatever process, and the newest', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const two = group.join('two')
  const [walked, elsewhere, nobodys, newest] = ['a', 'b', 'c', 'd'].map(snapshotOf) as [
    Snapshot,
    Snapshot,
    Snapshot,
    Snapshot,
  ]
  const kept = async () =>
    (await group.blobs.list(SNAPSHOTS)).map((name) => name.slice(SNAPSHOTS.length)).sort()
  const ids = (...snapshots: Snapshot[]) => snapshots.map(({ id }) => id).sort()
  await one.publish(walked)
  one.page()
  await one.publish(elsewhere)
  await until('the other has it', () => two.feed.current()?.id === elsewhere.id)
  two.page()
  await one.publish(nobodys)
  await one.publish(newest)
  await group.minutes(3)
  t.equal((await kept()).length, 4, 'somebody may be taking it up')
  await group.minutes(4)
  t.same(await kept(), ids(walked, elsewhere, newest))
  await group.minutes(16)
  t.same(await kept(), ids(newest))
})

test('what was replaced takes so many bytes of the storage and no more: the oldest goes, walked in or not', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const [oldest, older, nobodys, newest] = ['a', 'b', 'c', 'd'].map(snapshotOf) as [
    Snapshot,
    Snapshot,
    Snapshot,
    Snapshot,
  ]
  for (const snapshot of [oldest, older, nobodys, newest]) {
    group.sizes.set(`${SNAPSHOTS}${snapshot.id}`, 600 * 1024 ** 2)
    await one.publish(snapshot)
    if (snapshot !== nobodys) one.page()
    await group.minutes(1)
  }
  await group.minutes(1)
  t.same(
    (await group.blobs.list(SNAPSHOTS)).sort(),
    [older, newest].map(({ id }) => `${SNAPSHOTS}${id}`).sort(),
    'first the one in which nobody walks, then the oldest',
  )
})

test('what is saved and not told yet stays, however much is walked in', async (t) => {
  const group = createGroup()
  group.build('one')
  const one = group.join('one')
  const [walked, newest, next] = ['a', 'b', 'c'].map(snapshotOf) as [Snapshot, Snapshot, Snapshot]
  for (const snapshot of [walked, newest]) {
    group.sizes.set(`${SNAPSHOTS}${snapshot.id}`, 600 * 1024 ** 2)
    await one.publish(snapshot)
    one.page()
  }
  group.sizes.set(`${SNAPSHOTS}${next.id}`, 600 * 1024 ** 2)
  let proceed = () => {}
  const may = new Promise<void>((resolve) => {
    proceed = resolve
  })
  group.written.before = () => may
  const publishing = one.publish(next)
  await group.minutes(1)
  proceed()
  await publishing
  await new Promise(setImmediate)
  t.ok(await group.blobs.read(`${SNAPSHOTS}${next.id}`))
})

test('snapshots of a release that put them elsewhere go 20 minutes after its last process', async (t) => {
  const group = createGroup()
  const earlier = 'snapshot/of-an-earlier-release'
  await group.blobs.write(earlier, [])
  group.otherForms.add(UNSAID)
  group.build('one')
  const one = group.join('one')
  await one.publish(snapshotOf('one'))
  await group.minutes(30)
  t.ok(await group.blobs.read(earlier))
  group.otherForms.clear()
  await group.minutes(22)
  t.notOk(await group.blobs.read(earlier))
})

test('a walk in the prices of an account is found at another process as long as its name stands for that account', async (t) => {
  const name = overlayName('buyer', 'acc')
  const accountOf = (id: string) => ({
    ...{ name, caller: 'buyer' },
    upstreams: new Map([[agentUrl('north'), { account: { account_id: id } }]]),
  })
  const member = { ...buyer, account: name }
  const [open, own, later] = ['open', 'own', 'later'].map(snapshotOf) as [Snapshot, Snapshot, Snapshot]
  const group = createGroup()
  const one = group.join('one', group.blobs, new Map([[name, accountOf('gold')]]))
  const theirs = new Map([[name, accountOf('gold')]])
  const { reads, blobs } = counted(group.blobs)
  const two = group.join('two', blobs, theirs)
  const ask = ({ feed }: typeof one, cursor?: string) =>
    pageOf(feed.wholesale({ maxResults: 1, ...(cursor && { cursor }) }, member, group.time.clock.now()))
  group.build('one')
  const definitions = one.generations.definitions()
  const accounts = new Map([[name, { snapshot: own, gaps: [] }]])
  const under = one.generations.turn() as Turn
  await one.generations.tell({ open: { snapshot: open, gaps: [] }, accounts, definitions }, under, areFound)
  one.feed.publish(open, 0, { accounts })
  const first = ask(one)
  await until('the other has it', () => two.feed.current(name)?.id === own.id)
  await one.publish(later)
  await until('the other has the next', () => two.feed.current()?.id === later.id)
  await group.minutes(2)
  const goesOn = async () => {
    const query = { maxResults: 1, cursor: first.cursor as string }
    await two.generations.recall(query, member, group.time.clock.now())
    return ask(two, first.cursor).feedVersion === first.feedVersion
  }
  theirs.set(name, accountOf('silver'))
  const before = reads.length
  for (const _ of ['at first', 'again']) t.notOk(await goesOn(), 'it is not to be had')
  t.equal(reads.length, before + 1, 'whoever asks again costs nothing')
  theirs.set(name, accountOf('gold'))
  t.ok(await goesOn())
  theirs.set(name, accountOf('silver'))
  t.notOk(await goesOn(), 'it is here and not shown')
})
