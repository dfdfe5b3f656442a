/** Processes on one database that take turns at building. */
import { pino } from 'pino'
import type { Test } from 'tap'
import { systemClock } from '../../../src/net/clock.js'
import { createReplica } from '../../../src/store/replicas/replica.js'
import { until } from '../../support/until.js'
import type { Storage } from './storages.js'

const LEAD = 'build'

export async function joined(t: Test, storage: Storage, self: string, first: string, form = 1) {
  const { replicas } = await storage.open()
  if (!replicas) throw new Error('a shared storage has replicas')
  let current = first
  const replica = createReplica({
    ...{ replicas, clock: systemClock, self, form, revision: () => current },
    log: pino({ level: 'silent' }),
  })
  let closing: Promise<void> | undefined
  const close = () => (closing ??= replica.close())
  t.teardown(close)
  await replica.listen()
  replica.sharing.lead('feed', [`${LEAD}/${form}`])
  await replica.join()
  return {
    isBuilder: () => replica.sharing.turn(`${LEAD}/${form}`) !== undefined,
    reload(revision: string): void {
      current = revision
      replica.revisions.changed()
    },
    close,
  }
}

type Joined = Awaited<ReturnType<typeof joined>>
export const buildersOf = (all: Record<string, Joined>) =>
  Object.entries(all).flatMap(([name, one]) => (one.isBuilder() ? [name] : []))
/** Resolves when exactly one of these builds. */
export const becomes = (all: Record<string, Joined>, ...names: string[]) =>
  until(
    () => buildersOf(all),
    (found) => found.length === 1 && names.includes(found[0] as string),
  )
