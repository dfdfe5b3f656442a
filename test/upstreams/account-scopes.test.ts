import { test } from 'tap'
import { canonicalUrl } from '../../src/adcp/url.js'
import { openBlobFiles } from '../../src/store/blob-files.js'
import type { Scope } from '../../src/upstreams/mirror/scope-setting.js'
import type { Transition } from '../../src/upstreams/mirror/scope-status.js'
import { sliceListing } from '../../src/upstreams/rows/slice.js'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

const OTHER_PROVIDER = {
  signal_ref: { scope: 'data_provider', data_provider_domain: 'quietfield.example', signal_id: 'own' },
}

/** Gold pays less and is offered a signal of its own; every other account pays the rate card. */
function accountAgent() {
  let reads = 0
  let version = 1
  let forgetful = 0
  let bare: string | undefined
  let lacks: string | undefined
  let meanwhile = () => {}
  const handle: TaskHandler = (task, args) => {
    if (task !== 'get_signals') return CAPABILITIES
    const { account_id: account } = (args.account ?? {}) as { account_id?: string }
    const isGold = account === 'gold' && forgetful === 0
    if (account === 'gold' && forgetful > 0) forgetful -= 1
    const option = { pricing_option_id: 'po', model: 'cpm', cpm: isGold ? 1 : 2, currency: 'USD' }
    const signals = [row(version, { pricing_options: [option] })]
    const isBare = bare !== undefined && account === bare
    const answer = {
      status: 'completed',
      signals: isGold ? [...signals, row(999, OTHER_PROVIDER)] : isBare ? [] : signals,
      cache_scope: isGold || isBare ? 'account' : 'public',
      wholesale_feed_version: `v${version}`,
      pagination: { has_more: false },
      ...(account && lacks && { incomplete: [{ scope: lacks, description: 'the accounts are away' }] }),
    }
    if (account) {
      reads += 1
      meanwhile()
    }
    return answer
  }
  return {
    handle,
    reads: () => reads,
    /** For so many readings it does not know that gold has an agreement. */
    forget: (times: number) => {
      forgetful = times
      version += 1
    },
    /** From now on it has an agreement by which it is offered nothing; for everybody else nothing changes. */
    offerNothing: (account: string) => {
      bare = account
    },
    /** For so many readings it does not know it, and says that something is missing from what it answers for accounts. */
    lose: (scope: string, times: number) => {
      lacks = scope
      forgetful = times
    },
    publish: () => {
      version += 1
    },
    during: (work: () => void) => {
      meanwhile = () => {
        meanwhile = () => {}
        work()
      }
    },
  }
}

const scope = (name: string, account = name): Scope => ({
  name,
  caller: 'acme',
  account: { account_id: account },
})

async function opened(
  t: Test,
  scopes: readonly Scope[],
  more: Partial<Parameters<typeof openUpstreams>[2]> & { auth?: { type: 'bearer'; token: string } } = {},
) {
  const logic = accountAgent()
  const agent = await startMcpAgent(logic.handle, { port: await reservedPort() })
  t.teardown(agent.close)
  const { auth, ...options } = more
  const config = (wanted: readonly Scope[], pace = {}) => ({
    ...configOf([{ id: 'a', url: agent.url, ...(auth && { auth }) }], pace),
    scopes: new Map([[canonicalUrl(agent.url) ?? '', wanted]]),
  })
  const transitions: Transition[] = []
  const onTransition = (transition: object) => void transitions.push(transition as Transition)
  const made = await openUpstreams(t, config(scopes), { onTransition, ...options })
  await made.upstreams.start()
  const holding = (name: string) => made.upstreams.holdings().find((each) => each.scope === name)
  const status = (name: string) => made.upstreams.statusesOf(name)[0]
  return { ...made, logic, agent, config, holding, status, transitions }
}

test('an account with prices of its own is held beside the public slice, and its providers are looked for', async (t) => {
  const { upstreams, holding, status } = await opened(t, [scope('gold'), scope('silver')])
  await until('both accounts', () => status('gold')?.state === 'fresh' && status('silver')?.state === 'fresh')
  const slice = holding('gold')?.slice
  t.equal(slice?.scope, 'gold')
  t.match(slice && sliceListing(slice, 0).pricing_options, [{ cpm: 1 }])
  await until('the public slice', () => upstreams.slices().length === 1)
  const [open] = upstreams.slices()
  t.match(open && sliceListing(open, 0).pricing_options, [{ cpm: 2 }], 'the public slice is untouched')
  t.match(
    holding('silver'),
    { rateCard: true, slice: undefined },
    'an account without a deal pays the rate card',
  )
  t.same([...new Set([...upstreams.providerDomains().values()].flat())].sort(), [
    'quietfield.example',
    'tridentauto.example',
  ])
})

test('an account that goes on paying the rate card changes nothing', async (t) => {
  const { upstreams, logic, status } = await opened(t, [scope('silver')])
  await until('both are read', () => status('silver')?.state === 'fresh' && upstreams.slices().length === 1)
  let changes = 0
  upstreams.onChange(() => {
    changes += 1
  })
  const reads = logic.reads()
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  await until('it is read again', () => logic.reads() > reads)
  await until('and settled', () => status('silver')?.state === 'fresh')
  t.equal(changes, 0)
})

test('that an account is offered nothing any more, in place of the rate card, is news', async (t) => {
  const { upstreams, logic, holding, status } = await opened(t, [scope('silver')])
  await until('both are read', () => status('silver')?.state === 'fresh' && upstreams.slices().length === 1)
  t.equal(holding('silver')?.rateCard, true)
  const told: (boolean | undefined)[] = []
  upstreams.onChange(() => told.push(holding('silver')?.rateCard))
  logic.offerNothing('silver')
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  await until('its own', () => holding('silver')?.rateCard === false)
  t.equal(holding('silver')?.slice?.rows.count, 0)
  t.same(told, [false])
})

test("an account's slice outlives the process, its upstream being down, but not another account", async (t) => {
  const folder = await temporaryFolder(t)
  const first = await opened(t, [scope('gold'), scope('silver')], { folder })
  const { status } = first
  await until('both accounts', () => status('gold')?.state === 'fresh' && status('silver')?.state === 'fresh')
  await first.close()
  await first.agent.close()

  const again = await openUpstreams(t, first.config([scope('gold'), scope('silver')]), { folder })
  await again.upstreams.start()
  const held = () => again.upstreams.holdings()
  t.equal(held().find((each) => each.scope === 'gold')?.slice?.rows.count, 2)
  t.match(
    held().find((each) => each.scope === 'silver'),
    { rateCard: true },
  )
  await until('the trouble', () => again.upstreams.statusesOf('gold')[0]?.state === 'stale')

  again.upstreams.reconfigure(first.config([scope('gold', 'another-account'), scope('silver')]))
  t.equal(held().find((each) => each.scope === 'gold')?.slice, undefined, 'rows are for whom they were read')
  await again.close()
  const last = await openUpstreams(t, first.config([scope('gold', 'another-account')]), { folder })
  await last.upstreams.start()
  t.equal(last.upstreams.holdings().find((each) => each.scope === 'gold')?.slice, undefined)
})

test('an account whose upstream hangs loses its rows when they pass their cap, like everybody else', async (t) => {
  const time = createManualClock()
  const { agent, status, holding, transitions } = await opened(t, [scope('gold')], { clock: time.clock })
  await until('the account', () => status('gold')?.state === 'fresh')
  await agent.close()
  time.advance(86_400_001)
  t.equal(holding('gold')?.slice, undefined)
  t.equal(status('gold')?.state, 'absent')
  const told = transitions.filter((each) => each.scope === 'gold').map(({ from, to }) => `${from} ${to}`)
  t.same(told, ['starting fresh', 'fresh stale', 'stale absent'], 'each change is told once')
})

test('a reading that is asked for settles neither for the last one nor for one under way', async (t) => {
  const { upstreams, logic, holding, status } = await opened(t, [scope('gold')])
  const version = () => holding('gold')?.slice?.feedVersion
  await until('the account', () => version() === 'v1')
  await until('its end', () => status('gold')?.nextAttemptAt !== undefined)
  const before = logic.reads()
  logic.publish()
  logic.during(() => {
    logic.publish() // after the answer was made
    upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
    upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  })
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  await until('what came last', () => version() === 'v3')
  t.equal(logic.reads(), before + 2, 'both by one reading')
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'somebody else')
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  t.equal(logic.reads(), before + 2, 'nobody else has this account')
})

test('what an operator orders is read at once, however much was asked for just before', async (t) => {
  const { clock, advance } = createManualClock()
  const { upstreams, logic, status } = await opened(t, [scope('gold')], { clock })
  const settled = () => (status('gold')?.nextAttemptAt ?? 0) > clock.now()
  await until('the account', () => status('gold')?.state === 'fresh' && settled())
  for (const due of [0, 1_000]) {
    const before = logic.reads()
    logic.during(() => advance(10_000)) // a reading of ten seconds
    upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
    advance(due)
    await until('what was asked for', () => logic.reads() > before && settled())
  }
  const before = logic.reads()
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  advance(10_000)
  t.equal(logic.reads(), before, 'long readings that are asked for again and again have to rest')
  upstreams.refreshWhole('a')
  advance(0)
  await until('what was ordered', () => logic.reads() > before)
})

test('what was saved for an account is not shown to another one that takes its name while it is read', async (t) => {
  const first = await opened(t, [scope('deal', 'gold')])
  await until('the account', () => first.status('deal')?.state === 'fresh')
  await first.close()
  await first.agent.close()

  const files = await openBlobFiles({ folder: first.folder, onDamage: () => {} })
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const asked = new Set<string>()
  const blobs = {
    ...files,
    async read(name: string) {
      asked.add(name)
      if (name.includes('/deal/')) await gate
      return files.read(name)
    },
  }
  const { upstreams } = await openUpstreams(t, first.config([scope('deal', 'gold')]), { blobs })
  const started = upstreams.start()
  await until('the reading', () => [...asked].some((name) => name.includes('/deal/')))
  upstreams.reconfigure(first.config([scope('deal', 'silver')]))
  open()
  await started
  await until('the account', () => upstreams.statusesOf('deal')[0]?.problem !== undefined)
  const held = upstreams.holdings().find((each) => each.scope === 'deal')
  t.equal(held?.slice, undefined)
})

test('what is being read for an account is never shown to another one that takes its name meanwhile', async (t) => {
  const { upstreams, logic, config, status, holding } = await opened(t, [scope('deal', 'gold')])
  await until('the account', () => status('deal')?.state === 'fresh')
  await until('its end', () => status('deal')?.nextAttemptAt !== undefined)
  let isSilver = false
  const shown: (number | undefined)[] = []
  upstreams.onChange(() => {
    if (isSilver) shown.push(holding('deal')?.slice?.rows.count)
  })
  logic.during(() => {
    isSilver = true
    upstreams.reconfigure(config([scope('deal', 'silver')]))
  })
  upstreams.refreshSoon(urlOf(upstreams, 'a'), 'acme')
  await until('its rate card', () => isSilver && holding('deal')?.rateCard === true)
  t.same([...new Set(shown)], [undefined])
})

test('an account does not lose its prices to an agent that answers before it knows its agreements', async (t) => {
  const { clock, advance } = createManualClock()
  const { logic, holding, status } = await opened(t, [scope('gold')], { clock, random: () => 0.5 })
  await until('the account', () => status('gold')?.state === 'fresh')
  logic.forget(1)
  await until('the doubt', () => {
    advance(1_000)
    return status('gold')?.problem?.reason === 'shrunken_feed'
  })
  t.equal(holding('gold')?.slice?.rows.count, 2)
  await until('the second look', () => {
    advance(1_000)
    return status('gold')?.state === 'fresh'
  })
  t.equal(holding('gold')?.slice?.rows.count, 2)
  logic.forget(1_000)
  await until('the rate card', () => {
    advance(1_000)
    return holding('gold')?.rateCard === true
  })
  t.equal(holding('gold')?.slice, undefined, 'it is believed when it says so again')
})

test('an account keeps its prices while its agent says that it could not tell everything', async (t) => {
  const { clock, advance } = createManualClock()
  const { logic, holding, status, upstreams } = await opened(t, [scope('gold')], { clock, random: () => 0.5 })
  await until(
    'the account',
    () => status('gold')?.state === 'fresh' && (status('gold')?.nextAttemptAt ?? 0) > 0,
  )
  for (const lacks of ['pricing', 'wholesale_feed']) {
    const before = logic.reads()
    logic.lose(lacks, 1_000)
    await until('several readings', () => {
      advance(10_000)
      return logic.reads() >= before + 4
    })
    const slice = holding('gold')?.slice
    t.match(slice && sliceListing(slice, 0).pricing_options, [{ cpm: 1 }], lacks)
    t.match(status('gold'), { state: 'stale', problem: { reason: 'incomplete_feed' }, rateCard: false })
  }
  t.equal(upstreams.statuses()[0]?.state, 'fresh', 'the trouble is of the account alone')
})
