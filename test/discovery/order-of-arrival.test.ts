import fc from 'fast-check'
import { test } from 'tap'
import { createBrief } from '../../src/briefs/brief.js'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { placeOf } from '../../src/briefs/corpus.js'
import { createLocal } from '../../src/briefs/local.js'
import { createRanking } from '../../src/briefs/rank.js'
import { createStanding } from '../../src/briefs/standing.js'
import { createFeed } from '../../src/feed/feed.js'
import { systemClock } from '../../src/net/clock.js'
import { createSearchHost } from '../../src/search/search-host.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { proven } from '../support/proven.js'
import { briefAnswer } from '../support/upstream-answers.js'

const topics = ['electric cars', 'coffee', 'mortgages', 'ski trips', 'dog food', 'basketball']
const signal = (n: number): Listing =>
  listing(`s${n}`, { name: `${topics[n % topics.length]} ${n % 2 === 0 ? 'buyers' : 'viewers'}` })

/** s0 to s19 are mirrored from `north`; the others are known to whoever answers. */
const mirrored = Array.from({ length: 20 }, (_, n) => signal(n))
const ids = ['north', 'south', 'east', 'west']
const someRows = fc.uniqueArray(fc.integer({ min: 0, max: 39 }), { maxLength: 12 })

test('answers of upstreams in any order of arrival give the same answer once all are there', async (t) => {
  const judge = judgeThat({})
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  const snapshot = buildSnapshot({ slices: [sliceOf('north', mirrored)], judge })
  feed.publish(snapshot, 0)
  const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
  const search = createSearchHost(synonyms)
  const ranking = createRanking({
    local: createLocal({ search, synonyms }),
    synonyms,
    rates: () => undefined,
  })
  t.teardown(search.close)
  await search.publish(snapshot)

  /** `isRankedMeanwhile`: what has arrived is put in order after each answer, and what is found then is built upon. */
  async function answer(
    rows: readonly (readonly number[])[],
    order: readonly string[],
    isRankedMeanwhile = false,
  ): Promise<string> {
    const open = new Map<string, (outcome: AgentOutcome) => void>()
    const fanout = createFanout({
      clock: systemClock,
      call: (asked) => new Promise((resolve) => open.set(asked.agentUrl, resolve)),
    })
    const statuses = ids.map((id) => ({
      ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 0, dropped: {} },
      state: 'fresh' as const,
    }))
    const whom = {
      upstreams: { statuses: () => statuses, roster: () => ({ entries: [] }) },
      access: () => ({ scope: 'public' }),
    }
    const standing = createStanding({ ...whom, judge: () => judge })
    const brief = createBrief({ feed, ranking, fanout, standing, ...whom, clock: systemClock })
    const inquiry = brief.ask({ signal_spec: 'coffee and electric cars' }, buyer, Date.now() + 10_000)
    const settled = inquiry.settled(Date.now() + 10_000)
    for (const id of order) {
      const signals = (rows[ids.indexOf(id)] ?? []).map(signal)
      open.get(agentUrl(id))?.(briefAnswer(signals))
      await new Promise(setImmediate)
      if (isRankedMeanwhile) await inquiry.rank()
    }
    await settled
    fanout.close()
    const ranked = await inquiry.rank()
    if (!ranked?.hits.length) throw new Error('nothing was found, and that is always in order')
    const shown = ranked.hits.map((hit) => {
      const { snapshot: from, entry } = placeOf(ranked.corpus, hit)
      return rowAt(from, entry)
    })
    return JSON.stringify(shown)
  }

  await proven(
    t,
    8,
    fc.asyncProperty(
      fc.tuple(someRows, someRows, someRows, someRows),
      fc.shuffledSubarray(ids, { minLength: ids.length }),
      async (rows, order) => {
        const whole = await answer(rows, ids)
        return whole === (await answer(rows, order)) && whole === (await answer(rows, order, true))
      },
    ),
  )
})
