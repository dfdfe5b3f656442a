import fc from 'fast-check'
import { type Test, test } from 'tap'
import { overlayName, type Reader } from '../../src/feed/query.js'
import { proven } from '../support/proven.js'
import { feedOf, listing, live, platform } from '../support/server-feed.js'
import { type FixtureFeed, sha256, startServer } from '../support/server-fixture.js'

const SIGNALS = 30

/** Two tenants with everything that one could learn of the other: each secret is a string that occurs nowhere else. */
const TENANTS = {
  alpha: {
    token: 'token-of-alpha',
    account: 'account-alpha',
    cpm: 11.1171,
    key: 'activation-key-alpha',
    seat: 'seat-a',
  },
  beta: {
    token: 'token-of-beta',
    account: 'account-beta',
    cpm: 22.2272,
    key: 'activation-key-beta',
    seat: 'seat-b',
  },
} as const
type Tenant = keyof typeof TENANTS
const NAMES = Object.keys(TENANTS) as Tenant[]
const UPSTREAM_ACCOUNT = 'upstream-account-of-'

/** What no answer to anybody but the tenant may hold, whatever was asked. */
function secretsOf(name: Tenant): string[] {
  const { token, account, cpm, key } = TENANTS[name]
  return [token, sha256(token), account, String(cpm), key, UPSTREAM_ACCOUNT + name]
}

function listings(cpm: number) {
  const { alpha, beta } = TENANTS
  const deployments = [live(alpha.seat, alpha.key), live(beta.seat, beta.key)]
  return Array.from({ length: SIGNALS }, (_, n) => listing(`s${n}`, cpm, deployments))
}

/** A cache that forgets who asked: the mistake this suite is there for. */
function leaking(feed: FixtureFeed): FixtureFeed {
  let last: Reader | undefined
  const anybody = (reader: Reader): Reader => {
    if (reader.account !== undefined || reader.grants.length > 0) last ??= reader
    return last ?? reader
  }
  return {
    isServing: feed.isServing,
    wholesale: (query, reader, ...more) => feed.wholesale(query, anybody(reader), ...more),
    wholesaleAgain: (query, reader, ...more) => feed.wholesaleAgain(query, anybody(reader), ...more),
    reading: (query, reader, ...more) => feed.reading(query, anybody(reader), ...more),
    known: (query, reader, now) => feed.known(query, anybody(reader), now),
    moment: (reader) => feed.moment(anybody(reader)),
    see: (query, reader, options) => feed.see(query, anybody(reader), options),
    preparing: (query, reader, now) => feed.preparing(query, anybody(reader), now),
  }
}

async function start(t: Test, spoil: (feed: FixtureFeed) => FixtureFeed = (feed) => feed) {
  const overlays = Object.fromEntries(
    NAMES.map((name) => [overlayName(name, TENANTS[name].account), listings(TENANTS[name].cpm)]),
  )
  const feed = feedOf({ listings: listings(5), overlays })
  const server = await startServer(t, {
    feed: spoil(feed),
    callers: {
      anonymous: 'metadata',
      keys: NAMES.map((name) => ({
        id: name,
        tokenSha256: sha256(TENANTS[name].token),
        role: 'buyer',
        destinations: [platform(TENANTS[name].seat)],
        accounts: { [TENANTS[name].account]: { northwind: { account_id: UPSTREAM_ACCOUNT + name } } },
      })),
    },
  })
  return server
}

type Server = Awaited<ReturnType<typeof start>>
type Action = {
  who: Tenant | 'anonymous'
  /** Whose account, cursor, token or task the request uses: not always its own. */
  whose: Tenant
  what: 'page' | 'next' | 'probe' | 'lookup' | 'mistake' | 'task' | 'list'
  withAccount: boolean
  transport: 'mcp' | 'a2a'
}

const ACTION: fc.Arbitrary<Action> = fc.record({
  who: fc.constantFrom(...NAMES, 'anonymous' as const),
  whose: fc.constantFrom(...NAMES),
  what: fc.constantFrom('page', 'next', 'probe', 'lookup', 'mistake', 'task', 'list'),
  withAccount: fc.boolean(),
  transport: fc.constantFrom('mcp', 'a2a'),
})

/** Plays a sequence of requests, each of which may use what an earlier answer gave to somebody else. */
async function play({ post }: Server, actions: readonly Action[]): Promise<string[]> {
  const leaks: string[] = []
  const cursors = new Map<Tenant, string>()
  const tokens = new Map<Tenant, string>()
  const tasks = new Map<Tenant, string>()

  async function ask({ who, transport }: Action, args: object): Promise<{ text: string; head: string }> {
    const headers: Record<string, string> = { 'mcp-protocol-version': '2025-06-18', 'a2a-version': '1.0' }
    if (who !== 'anonymous') headers.authorization = `Bearer ${TENANTS[who].token}`
    const call = { jsonrpc: '2.0', id: 1 }
    const message = { messageId: 'm', parts: [{ data: { skill: 'get_signals', input: args } }] }
    const body =
      transport === 'mcp'
        ? { ...call, method: 'tools/call', params: { name: 'get_signals', arguments: args } }
        : { ...call, method: 'SendMessage', params: { message } }
    const reply = await post(`/${transport}`, body, headers)
    return { text: reply.text, head: JSON.stringify([...reply.headers]) }
  }

  async function askTask({ who, what }: Action, id: string): Promise<{ text: string; head: string }> {
    const headers: Record<string, string> = { 'a2a-version': '1.0' }
    if (who !== 'anonymous') headers.authorization = `Bearer ${TENANTS[who].token}`
    const method = what === 'list' ? 'ListTasks' : 'GetTask'
    const params = what === 'list' ? { includeArtifacts: true } : { id }
    const reply = await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, headers)
    return { text: reply.text, head: JSON.stringify([...reply.headers]) }
  }

  function argumentsOf({ what, whose, withAccount }: Action): object {
    const account = withAccount ? { account: { account_id: TENANTS[whose].account } } : {}
    const wholesale = { discovery_mode: 'wholesale', ...account }
    if (what === 'next')
      return { ...wholesale, pagination: { max_results: 7, cursor: cursors.get(whose) ?? 'none' } }
    if (what === 'probe') return { ...wholesale, if_wholesale_feed_version: tokens.get(whose) ?? 'none' }
    if (what === 'mistake') return { ...wholesale, signal_spec: 'x' }
    const ref = { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's3' }
    if (what === 'lookup') return { signal_refs: [ref], ...account }
    return { ...wholesale, pagination: { max_results: 7 } }
  }

  for (const action of actions) {
    const { who, whose, what } = action
    const isTask = what === 'task' || what === 'list'
    const given = argumentsOf(action)
    const { text, head } = isTask
      ? await askTask(action, tasks.get(whose) ?? 'none')
      : await ask(action, given)
    for (const name of NAMES) {
      // A caller may see what it sent itself; an account id of somebody else that it guessed is not learnt.
      const found = name === who ? [] : secretsOf(name).filter((secret) => (text + head).includes(secret))
      for (const secret of found) leaks.push(`${JSON.stringify(action)} told ${secret}`)
    }
    if (who === 'anonymous') continue
    const cursor = /"cursor":"([^"]+)"/.exec(text)?.[1]
    const token = /"wholesale_feed_version":"([^"]+)"/.exec(text)?.[1]
    const task = /"id":"(a2a_[^"]+)"/.exec(text)?.[1]
    if (cursor) cursors.set(who, cursor)
    if (token) tokens.set(who, token)
    if (task) tasks.set(who, task)
  }
  return leaks
}

test('no byte of one tenant reaches another, in any order of requests', async (t) => {
  const server = await start(t)
  const property = fc.asyncProperty(fc.array(ACTION, { minLength: 5, maxLength: 40 }), async (actions) => {
    const leaks = await play(server, actions)
    if (leaks.length > 0) throw new Error(leaks.join('\n'))
  })
  await proven(t, 8, property)
  t.pass('no secret was told')
  const logged = server.lines.join('\n') + (await server.send('/metrics', {})).text
  for (const secret of NAMES.flatMap(secretsOf)) t.notOk(logged.includes(secret), 'nor in logs or metrics')
})

test('the suite sees a leak when isolation is broken on purpose', async (t) => {
  const server = await start(t, leaking)
  const page: Action = { who: 'alpha', whose: 'alpha', what: 'page', withAccount: true, transport: 'mcp' }
  const leaks = await play(server, [
    page,
    { ...page, who: 'beta', whose: 'beta' },
    { ...page, who: 'anonymous', withAccount: false },
  ])
  t.ok(leaks.some((leak) => leak.includes(TENANTS.alpha.key)))
  t.ok(leaks.some((leak) => leak.includes(String(TENANTS.alpha.cpm))))
})

test('each tenant sees its own: prices of its account, keys of its seats', async (t) => {
  const { call } = await start(t)
  for (const name of NAMES) {
    const { token, account, cpm, key } = TENANTS[name]
    const headers = { authorization: `Bearer ${token}` }
    const args = { discovery_mode: 'wholesale', account: { account_id: account } }
    const own = await call('get_signals', args, headers)
    t.equal(own.cache_scope, 'account')
    t.equal(own.signals[0].pricing_options[0].cpm, cpm)
    t.ok(JSON.stringify(own.signals[0]).includes(key))
    const open = await call('get_signals', { discovery_mode: 'wholesale' }, headers)
    t.equal(open.cache_scope, 'public')
    t.equal(open.signals[0].pricing_options[0].cpm, 5)
    t.not(own.wholesale_feed_version, open.wholesale_feed_version)
  }
})

test('a token of one scope never matches in another', async (t) => {
  const { call } = await start(t)
  const ask = (name: Tenant, token: string, withAccount: boolean) =>
    call(
      'get_signals',
      {
        discovery_mode: 'wholesale',
        if_wholesale_feed_version: token,
        ...(withAccount && { account: { account_id: TENANTS[name].account } }),
      },
      { authorization: `Bearer ${TENANTS[name].token}` },
    )
  const alpha = (await ask('alpha', 'none', true)).wholesale_feed_version
  t.equal((await ask('alpha', alpha, true)).unchanged, true)
  t.equal((await ask('alpha', alpha, false)).unchanged, undefined)
  t.equal((await ask('beta', alpha, true)).unchanged, undefined)
  t.equal((await ask('beta', alpha, false)).unchanged, undefined)
})

test('an account whose prices are the rate card is answered as public, with the public token', async (t) => {
  const account = TENANTS.alpha.account
  const feed = feedOf({ listings: listings(5), overlays: { [overlayName('alpha', account)]: listings(5) } })
  const { call } = await startServer(t, {
    feed,
    callers: {
      anonymous: 'deny',
      keys: [{ id: 'alpha', tokenSha256: sha256('k'), role: 'buyer', accounts: { [account]: {} } }],
    },
  })
  const ask = (more: object) =>
    call('get_signals', { discovery_mode: 'wholesale', ...more }, { authorization: 'Bearer k' })
  const own = await ask({ account: { account_id: account } })
  t.equal(own.cache_scope, 'public')
  t.equal(own.wholesale_feed_version, (await ask({})).wholesale_feed_version)
})
