/** Work that one process cannot do is done by another, and by the first again when none of them can. */
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createReplica } from '../../src/store/replicas/replica.js'
import { until } from '../support/until.js'
import { NO_POSTGRES, shared } from './support/storages.js'

const WORK = 'mirror/https://agent.example/mcp'

type Replica = ReturnType<typeof createReplica>

async function joined(t: Test, count: number): Promise<Replica[]> {
  const store = await (await shared(t))?.open()
  const { replicas } = store ?? {}
  if (!replicas) return []
  const log = pino({ level: 'silent' })
  const all: Replica[] = []
  for (let at = 0; at < count; at += 1) {
    const replica = createReplica({
      ...{ replicas, clock: systemClock, log },
      ...{ self: `member-${at}`, revision: () => 'r', form: 1 },
    })
    t.teardown(replica.close)
    replica.sharing.want('mirrors', [WORK])
    await replica.listen()
    await replica.join()
    all.push(replica)
  }
  for (const { sharing } of all) sharing.want('mirrors', [WORK, 'mirror/another']) // who has news looks who lives
  return all
}

const holders = (all: readonly Replica[]) => all.filter(({ sharing }) => sharing.turn(WORK))

/** Whoever has it leaves it to the others; who has it then. */
async function passedOn(all: readonly Replica[]): Promise<Replica | undefined> {
  const [one] = holders(all)
  await one?.sharing.pass(WORK)
  const [next] = await until(
    () => holders(all),
    (now) => now.length === 1 && now[0] !== one,
  )
  return next
}

test('what a process cannot do goes from one to the next, and back to the first when all have tried', {
  skip: NO_POSTGRES,
}, async (t) => {
  const all = await joined(t, 3)
  if (all.length === 0) return
  const [first] = await until(
    () => holders(all),
    (now) => now.length === 1 && all.every(({ members }) => members().length === 3),
  )
  const second = await passedOn(all)
  const third = await passedOn(all)
  t.equal(new Set([first, second, third]).size, 3)
  t.equal(await passedOn(all), first)
})

test('a process that is alone keeps what it cannot do', { skip: NO_POSTGRES }, async (t) => {
  const [one] = await joined(t, 1)
  const turn = one?.sharing.turn(WORK)
  if (!one || !turn) return
  await one.sharing.pass(WORK)
  t.same(one.sharing.turn(WORK), turn)
})
