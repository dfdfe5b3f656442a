/**
 * Agents of every known kind, each in a process of its own, federated by a running server: read, activated, polled until live with
 * its key, restarted, and switched off or refused. The table that comes out is the one in docs/upstreams.md.
 */
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Test, test } from 'tap'
import { type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { until } from '../support/upstream-world.js'
import type { Order, Report } from './support/kind-process.js'
import { type Books, KINDS, type Kind } from './support/kinds.js'

const PROGRAM = new URL('./support/kind-process.js', import.meta.url)
const PATIENCE_MS = 120_000
const DV360 = { type: 'platform', platform: 'dv360' }
const idOf = (kind: Kind) => `kind-${KINDS.indexOf(kind)}`

/** What the operator of each kind should change: everything else in the table is observed. */
const ADVICE = [
  'nothing',
  'name `action` in `activate_signal`; move `wholesale_feed_version` with its rows',
  "speak of deactivating in the skill's description",
  'offer `discovery_mode: wholesale`',
  'a release with `get_adcp_capabilities`; more rows at once',
  'a release with `get_adcp_capabilities`',
  'a release with `get_adcp_capabilities`',
]

function started(t: Test, kind: Kind) {
  const child = fork(PROGRAM, [kind.name])
  let url: string | undefined
  let books: Books | undefined
  child.on('message', (told: Report) => {
    if ('url' in told) url = told.url
    else books = told.books
  })
  t.teardown(() => child.kill())
  return {
    async url(): Promise<string> {
      await until(`${kind.name} listens`, () => url !== undefined, PATIENCE_MS)
      return url as string
    },
    /** Its books after the order. */
    async told(order: Order): Promise<Books> {
      books = undefined
      child.send(order)
      await until(`the books of ${kind.name}`, () => books !== undefined, PATIENCE_MS)
      return books as unknown as Books
    },
  }
}

async function everySignal(over: Awaited<ReturnType<typeof startOver>>): Promise<Said[]> {
  const signals: Said[] = []
  let cursor: string | undefined
  do {
    const answer = await over.wholesale({ pagination: { max_results: 100, ...(cursor && { cursor }) } })
    signals.push(...answer.signals)
    cursor = answer.pagination?.cursor
  } while (cursor)
  return signals
}

function readWords({ mode, limitedAt }: Said): string {
  if (mode === 'wholesale') return 'everything, page by page'
  return limitedAt === undefined
    ? 'what `seeds` and providers find'
    : 'what `seeds` find, a limited number of rows a question'
}

/** The rows below the head of the table of kinds. */
function documentedRows(page: string): string[] {
  const [, below = ''] = page.split(/^\| kind of agent .*\n.*\n/m)
  const [rows = ''] = below.split('\n\n')
  return rows.split('\n')
}

test('agents of every kind are read, activated, polled, and switched off or refused, over a restart', async (t) => {
  const agents = KINDS.map((kind) => started(t, kind))
  const urls = await Promise.all(agents.map((agent) => agent.url()))
  const upstreams = KINDS.map((kind, at) => ({
    id: idOf(kind),
    url: urls[at],
    seeds: ['coffee', 'drinkers'],
  }))
  const over = await startOver(t, upstreams, { defaults: { refresh: '2s', timeout: '60s' } })

  const signals = await everySignal(over)
  const offered = (kind: Kind) =>
    signals.filter((signal) =>
      signal.ext.tributary.offers.some(({ upstream }: Said) => upstream === idOf(kind)),
    )
  const statusOf = (kind: Kind) => over.federation.statuses().find(({ id }) => id === idOf(kind)) as Said

  async function activated(kind: Kind, more: object, nth = 0): Promise<Said> {
    const { signal_agent_segment_id, pricing_options } = offered(kind)[nth] as Said
    const [{ pricing_option_id }] = pricing_options
    const request = { signal_agent_segment_id, pricing_option_id, destinations: [TRADE_DESK], ...more }
    return await over.call('activate_signal', { idempotency_key: randomUUID(), ...request })
  }

  /** What an activation came to, and its task where it had one. */
  async function settled(answer: Said): Promise<{ deployments: Said[]; polled: boolean }> {
    if (answer.status !== 'submitted') return { deployments: answer.deployments ?? [], polled: false }
    let task: Said = {}
    const end = Date.now() + PATIENCE_MS
    while (task.status !== 'completed' && task.status !== 'failed' && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      task = await over.call('get_task_status', { task_id: answer.task_id, include_result: true })
    }
    return { deployments: task.result?.deployments ?? [], polled: true }
  }

  const keys = KINDS.map(() => randomUUID())
  const lives = await Promise.all(
    KINDS.map(async (kind, at) => settled(await activated(kind, { idempotency_key: keys[at] }))),
  )
  const several = await Promise.all(
    KINDS.map((kind) => activated(kind, { destinations: [TRADE_DESK, DV360] })),
  )
  const liar = KINDS[1] as Kind
  await until('the liar is caught', () => statusOf(liar).caughtAt !== undefined, PATIENCE_MS)
  // Of another signal, so that it stands in nobody's way; agents without tasks switch it on at once.
  await Promise.all(agents.map((agent) => agent.told('hold')))
  const others = KINDS.map(() => randomUUID())
  const another = (kind: Kind, at: number) => activated(kind, { idempotency_key: others[at] }, 1)
  const pending = await Promise.all(KINDS.map(another))
  const before = await Promise.all(agents.map((agent) => agent.told('books')))

  await over.restart()
  const stillPending = await Promise.all(KINDS.map(another))
  await Promise.all(agents.map((agent) => agent.told('let go')))
  const ended = await Promise.all(stillPending.map(settled))
  const repeated = await Promise.all(
    KINDS.map(async (kind, at) => settled(await activated(kind, { idempotency_key: keys[at] }))),
  )
  const offs = await Promise.all(KINDS.map((kind) => activated(kind, { action: 'deactivate' })))
  const after = await Promise.all(agents.map((agent) => agent.told('books')))

  const table: string[] = []
  for (const [at, kind] of KINDS.entries()) {
    const { name, total } = kind
    const status = statusOf(kind)
    const [live, again, off, both] = [lives[at], repeated[at], offs[at], several[at]] as [
      Said,
      Said,
      Said,
      Said,
    ]
    const [was, is] = [before[at], after[at]] as [Books, Books]
    const limited = name.startsWith('2.6') ? 50 : total
    t.equal(status.listings, limited, `${name}: read whole, or as far as it goes`)
    t.equal(offered(kind).length, limited, `${name}: published`)
    t.match(
      live.deployments,
      [{ ...TRADE_DESK, is_live: true, activation_key: { segment_id: 'a-key' } }],
      `${name}: live, with its key`,
    )
    t.same(again.deployments, live.deployments, `${name}: the same after a restart`)
    const isSeveral = both.adcp_error === undefined
    if (!isSeveral)
      t.match(both.adcp_error, { field: 'destinations', details: { upstream: idOf(kind) } }, name)
    t.equal(pending[at]?.status === 'submitted', live.polled, `${name}: a task was under way at the restart`)
    t.equal(stillPending[at]?.task_id, pending[at]?.task_id, `${name}: it is the same task after the restart`)
    t.match(
      ended[at]?.deployments,
      [{ ...TRADE_DESK, is_live: true, activation_key: { segment_id: 'a-key' } }],
      `${name}: and was polled to live, with its key`,
    )
    t.equal(is.activated, isSeveral ? 3 : 2, `${name}: nothing was activated twice, or by a deactivation`)
    const isOff = off.adcp_error === undefined
    if (isOff) t.match(off.deployments, [{ ...TRADE_DESK, is_live: false }], `${name}: switched off`)
    else
      t.match(
        off.adcp_error,
        { field: 'action', suggestion: /whoever runs the upstream/ },
        `${name}: refused`,
      )
    t.equal(is.deactivated, isOff ? 1 : 0, `${name}: its books agree`)
    t.same(was.refused, [], `${name}: was sent nothing that it does not know`)
    t.equal(
      is.asked.get_adcp_capabilities,
      was.asked.get_adcp_capabilities,
      `${name}: what was learnt is kept`,
    )
    const where = isSeveral ? 'every destination' : 'one platform at a time'
    const end = isOff ? 'deactivation' : 'no deactivation'
    table.push(`| ${name} | ${readWords(status)} | ${where}; ${end} | ${ADVICE[at]} |`)
    t.comment(
      [
        name,
        `read ${status.listings} of ${total}`,
        live.polled ? 'polled to live, also over a restart' : 'live at once',
        'key told',
        isOff ? 'switched off' : 'deactivation refused',
        'the same after a restart',
      ].join(' | '),
    )
  }
  const [{ signal_agent_segment_id }] = offered(liar) as [Said]
  const { signals: [changed] = [] } = await over.call('get_signals', {
    ...{ adcp_version: '3.1', signal_refs: [offered(liar)[0]?.signal_ref] },
  })
  t.match(
    changed,
    { signal_agent_segment_id, pricing_options: [{ cpm: 7 }] },
    'the price behind the still token',
  )

  t.same(
    documentedRows(await readFile('docs/upstreams.md', 'utf8')),
    table,
    'docs/upstreams.md has this table',
  )
})
