/** Of two processes on one storage, the one that reaches no provider leaves their files to the other. */
import { pino } from 'pino'
import { test } from 'tap'
import { createShares } from '../../src/authz/provider/domains.js'
import { systemClock } from '../../src/net/clock.js'
import { createReplica } from '../../src/store/replicas/replica.js'
import type { Turn } from '../../src/upstreams/rows/storage.js'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { until } from '../support/until.js'

const DOMAINS = Array.from({ length: 60 }, (_, at) => `provider${at}.example`)

test('three providers in a row that do not answer, and all files are read by the other', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await (await shared(t))?.open()
  const { replicas } = store ?? {}
  if (!replicas) return
  const both = await Promise.all(
    ['one', 'other'].map(async (self) => {
      const log = pino({ level: 'silent' })
      const replica = createReplica({
        ...{ replicas, clock: systemClock, self, log },
        ...{ revision: () => 'r', form: 1 },
      })
      t.teardown(replica.close)
      const shares = createShares(replica.sharing, replica.sharing)
      await replica.listen()
      await replica.join()
      const its = () => DOMAINS.filter((domain) => shares.turn(domain))
      return { shares, its, members: replica.members }
    }),
  )
  const [one, other] = both as [(typeof both)[number], (typeof both)[number]]
  await until(
    () => [one.its(), other.its()],
    ([mine = [], theirs = []]) =>
      both.every(({ members }) => members().length === 2) &&
      Math.min(mine.length, theirs.length) > 3 &&
      mine.length + theirs.length === DOMAINS.length,
  )
  const [a, b, c] = one.its() as [string, string, string]
  const looked = (domain: string, answered: boolean) =>
    one.shares.looked(domain, one.shares.turn(domain) as Turn, answered)

  for (const domain of [a, b, b]) await looked(domain, false)
  await looked(a, true)
  for (const domain of [b, c, c]) await looked(domain, false)
  t.ok(one.its().length > 3, 'some that are down are no reason')

  await looked(a, false)
  t.same(one.its(), [])
  const theirs = await until(other.its, (held) => held.length === DOMAINS.length)
  t.same(theirs, DOMAINS)
})
