import type { Destination } from '../../src/adcp/signal.js'
import { createNotices, endQuestion } from '../../src/briefs/later.js'
import { systemClock } from '../../src/net/clock.js'
import { onEveryStorage } from '../store/support/storages.js'

const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
const live = { ...DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'secret' } }

onEveryStorage(
  'a notice shows keys to who has the grant when it is sent, not when it was asked',
  async (t, storage) => {
    const store = await storage.open({ keys: ['a storage key of the tests, long enough'] })
    const sent: string[] = []
    let grants: Destination[] = [DESK]
    const notices = createNotices({
      ...{
        store,
        clock: { ...systemClock, now: () => storage.clock.now },
        grantsOf: () => grants,
        onTrouble: t.comment,
      },
      webhook: async (_, body) => {
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
    for (grants of [[DESK], []]) {
      const held = await store.jobs.claim('t_notice', { owner: 'o', ms: 60_000 }, { early: true })
      if (held) await notices.run(held)
    }
    t.match(sent[0], /"secret"/)
    t.match(sent[1], /"is_live":true/)
    t.notMatch(sent[1], /secret/, 'the grant was taken back before it was taken')
    t.equal(sent.length, 2)
  },
)
