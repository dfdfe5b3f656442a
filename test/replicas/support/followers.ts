/**
 * Buyers of whichever replica the balancer picks: they walk by cursor, and follow the feed by what they are told. What they met
 * that must not be is kept.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { configFor, startSubscriber } from '../../events/support/subscriber.js'
import { createCaller, type Said } from './asking.js'

const PAGE = 25
const REFUSED_EVERY = 7 // so-manieth delivery
const REREAD = { times: 40, pauseMs: 100 }

/** `judge`: what is wrong with the rows of a whole walk that says of nothing that it is missing. */
type FollowersOptions = { url: string; judge(rows: readonly Said[]): string | undefined }

type Walk = { rows: readonly Said[]; versions: string }

const versionsOf = (said: Said) => `${said.wholesale_feed_version} ${said.pricing_version}`

export function createFollowers({ url, judge }: FollowersOptions) {
  const faults: string[] = []
  const contents = new Map<string, string>()
  const closers: (() => Promise<void>)[] = []
  let isOver = false
  let walks = 0
  const callerOf = (token: string) => createCaller({ url, token, isOver: () => isOver, onAnswer: () => {} })

  /** Undefined where it is no walk, which is a fault, or all is over. `held`: the versions that are held. */
  async function walk(token: string, held = ''): Promise<Walk | 'unchanged' | undefined> {
    const pages: Said[] = []
    const [feed, pricing] = held.split(' ')
    for (let cursor: string | undefined; ; ) {
      const page = await callerOf(token)('get_signals', {
        discovery_mode: 'wholesale',
        pagination: { max_results: PAGE, ...(cursor && { cursor }) },
        ...(!cursor && held && { if_wholesale_feed_version: feed, if_pricing_version: pricing }),
      })
      if (!page) return undefined
      if (page.unchanged) return 'unchanged'
      if (!page.signals) {
        faults.push(`a page was refused: ${JSON.stringify(page.adcp_error)}`)
        return undefined
      }
      pages.push(page)
      cursor = page.pagination.cursor
      if (!cursor) break
    }
    const [first = {}] = pages
    const versions = versionsOf(first)
    const rows = pages.flatMap(({ signals }) => signals as Said[])
    if (pages.some((page) => versionsOf(page) !== versions)) faults.push('a walk went on in another version')
    else if (rows.length !== first.pagination.total_count) faults.push(`a walk of ${rows.length} rows`)
    else if (!pages.some(({ incomplete }) => incomplete)) {
      const fault = judge(rows)
      if (fault) faults.push(`a walk: ${fault}`)
    }
    const content = JSON.stringify(rows.map((row) => [row.signal_agent_segment_id, row.name]).sort())
    if ((contents.get(versions) ?? content) !== content) faults.push('one version of two feeds')
    contents.set(versions, content)
    walks += 1
    return { rows, versions }
  }

  /** A subscriber to one account, whose copy follows what it is told. Resolves when it is subscribed and has read. */
  async function follow(token: string, domain: string) {
    const copy = { versions: '', names: new Map<string, string>() }
    const raws = new Map<string, string>()
    let last = ''
    let turn = 0
    let working: Promise<void> = Promise.resolve()

    /** A replica may serve what was before an event for about a second: that is read again. */
    async function reread(before = ''): Promise<void> {
      for (let times = 0; times < REREAD.times; times += 1) {
        const read = await walk(token)
        if (!read || read === 'unchanged') return
        copy.versions = read.versions
        copy.names = new Map(read.rows.map((row) => [row.signal_agent_segment_id, row.name]))
        if (read.versions !== before) return
        await wait(REREAD.pauseMs)
      }
    }

    async function take(body: Said): Promise<void> {
      const { event_type: type, payload } = body.event
      const { pricing_version: pricing, previous_pricing_version: pricingBefore } = body.ext.tributary
      const before = `${body.previous_wholesale_feed_version} ${pricingBefore}`
      const after = `${body.wholesale_feed_version} ${pricing}`
      if (copy.versions === after) return
      if (copy.versions !== before || type === 'wholesale_feed.bulk_change') return await reread(before)
      const id = payload.signal_agent_segment_id
      if (type === 'signal.removed') copy.names.delete(id)
      else if (payload.signal) copy.names.set(id, payload.signal.name)
      copy.versions = after
    }

    const subscriber = await startSubscriber({
      answer({ body, raw }, response) {
        turn += 1
        response.writeHead(turn % REFUSED_EVERY === 0 ? 503 : 200).end()
        const known = raws.get(body.idempotency_key)
        if (known !== undefined && known !== raw) faults.push(`${domain}: other bytes under one key`)
        if (known !== undefined) return
        raws.set(body.idempotency_key, raw)
        if (body.notification_id <= last) faults.push(`${domain}: ${body.notification_id} after ${last}`)
        last = body.notification_id
        working = working.then(() => take(body))
      },
    })
    closers.push(subscriber.close)
    const account = { brand: { domain }, operator: 'agency.example', billing: 'operator' }
    const said = await callerOf(token)('sync_accounts', {
      idempotency_key: `key-${randomUUID()}`,
      accounts: [
        { ...account, notification_configs: [configFor(subscriber.url, { subscriber_id: domain })] },
      ],
    })
    const [entry] = said?.accounts ?? []
    if (!['created', 'updated'].includes(entry?.action)) {
      faults.push(`${domain} could not subscribe: ${JSON.stringify(said)}`)
    }
    await reread()
    return {
      ...{ domain, token, url: subscriber.url, faults: subscriber.faults },
      /** What it was told, each once. */
      told: () => raws.size,
      copy: async () => {
        await working
        return copy
      },
    }
  }

  return {
    ...{ faults, walk, follow, walks: () => walks },
    /** Walks over and over, conditionally from the second time on, until it is told to end. */
    keepWalking(token: string, pauseMs: number): () => Promise<void> {
      let isEnding = false
      const walking = (async () => {
        for (let held = ''; !isEnding; await wait(pauseMs)) {
          const read = await walk(token, held)
          if (read && read !== 'unchanged') held = read.versions
        }
      })()
      return async () => {
        isEnding = true
        await walking
      }
    },
    async close(): Promise<void> {
      isOver = true
      for (const close of closers) await close()
    },
  }
}
