import { test } from 'tap'
import type { Destination } from '../../src/adcp/signal.js'
import { createLater } from '../../src/briefs/later.js'
import { createNotices, endQuestion } from '../../src/briefs/notice.js'
import { systemClock } from '../../src/net/clock.js'
import { embedded, onEveryStorage } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'

const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
const live = { ...DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'secret' } }

onEveryStorage(
  'a notice shows keys to who has the grant when it is sent, not when it was asked, and waits while nobody may see it',
  async (t, storage) => {
    const store = await storage.open({ keys: ['a storage key of the tests, long enough'] })
    const sent: string[] = []
    let grants: Destination[] | undefined = [DESK]
    const notices = createNotices({
      ...{
        store,
        clock: { ...systemClock, now: () => storage.clock.now },
        grantsOf: () => grants,
        onTrouble: t.comment,
      },
      webhook: async (_caller, _push, body) => {
        sent.push(body)
        return { kind: 'undelivered', reason: 'busy' }
      },
    })
    await store.tasks.create({
      id: 't',
      caller: 'acme',
      type: 'get_signals',
      status: 'submitted',
      request: {},
    })
    const result = { message: 'One signal.', signals: [{ deployments: [live] }] }
    await store.tasks.progress('t', { status: 'completed', result })
    const push = { url: 'https://a.example/hook', operationId: 'op' } as never
    const question = {
      id: 't',
      kind: 'question',
      lane: 'acme',
      caller: 'acme',
      data: { contextId: 'c', push },
    }
    const { job } = await store.jobs.add(question)
    const asked = await store.jobs.claim(job.id, { owner: 'o', ms: 60_000 })
    if (asked) await endQuestion(store.jobs, asked, 't', 'completed')
    for (grants of [[DESK], undefined, []]) {
      const held = await store.jobs.claim('t_notice', { owner: 'o', ms: 60_000 }, { early: true })
      if (held) await notices.run(held)
    }
    t.match(sent[0], /"secret"/)
    t.match(sent[1], /"is_live":true/)
    t.notMatch(sent[1], /secret/, 'the grant was taken back before it was taken')
    t.equal(sent.length, 2, 'nothing while its caller is not configured')
  },
)

test('a caller whose receivers all hang leaves places to the notices of others', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open({})
  const hook = (host: string) => `https://${host}.example/hook`
  async function ended(caller: string, id: string, host: string): Promise<void> {
    await store.write(async ({ tasks, jobs }) => {
      await tasks.create({ id, caller, type: 'get_signals', status: 'submitted', request: {} })
      await tasks.progress(id, { status: 'completed', result: { message: 'None.', signals: [] } })
      const data = { contextId: 'c', push: { url: hook(host) } }
      const added = await jobs.add(
        { id, kind: 'question', lane: caller, caller, data },
        { owner: 'o', ms: 60_000 },
      )
      if (added.isHeld) await endQuestion(jobs, added.job, id, 'completed')
    })
  }
  for (let at = 0; at < 1_100; at++) await ended('acme', `acme_${at}`, `silent${at % 4}`)
  await ended('nova', 'nova_0', 'well')
  let hangUp = () => {}
  const hanging = new Promise<void>((resolve) => {
    hangUp = resolve
  })
  const reached: string[] = []
  const later = createLater({
    ...{
      store,
      clock: { ...systemClock, now: () => storage.clock.now },
      grantsOf: () => [],
      onTrouble: t.comment,
    },
    ...{ brief: {}, firstPage: {}, call: {}, pushRules: {}, newId: () => 'one' },
    async webhook(_: string, { url }: { url: string }) {
      reached.push(url)
      if (url !== hook('well')) await hanging
      return { kind: 'delivered' }
    },
  } as unknown as Parameters<typeof createLater>[0])
  t.teardown(later.close)
  await later.resume()
  await until('the other caller is told', () => reached.includes(hook('well')))
  t.equal(reached.length, 501, 'half of all places')
  hangUp()
})
