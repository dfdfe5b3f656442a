import { test } from 'tap'
import { createBrief } from '../../src/briefs/brief.js'
import { createStanding, type StandingOptions } from '../../src/briefs/standing.js'
import { systemClock } from '../../src/net/clock.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import type { UpstreamStatus } from '../../src/upstreams/mirror/scope-status.js'
import { agentUrl, buyer, judgeThat } from '../feed/world.js'

type Sent = {
  agentUrl: string
  args: Readonly<Record<string, unknown>>
  auth: unknown
  answer(rows: AgentOutcome): void
}

const status = (id: string, more: Partial<UpstreamStatus> = {}): UpstreamStatus => ({
  ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 1, dropped: {}, state: 'fresh' },
  ...more,
})

function stage(statuses: UpstreamStatus[], standsFor = () => 'nw_77') {
  const sent: Sent[] = []
  const fanout = createFanout({
    clock: systemClock,
    call: (asked, _task, args) =>
      new Promise((answer) => sent.push({ agentUrl: asked.agentUrl, args, auth: asked.auth, answer })),
  })
  const upstreams = { statuses: () => statuses, roster: () => ({ entries: [] }) }
  const access: StandingOptions['access'] = ({ account }, upstream) =>
    account === 'gold' && upstream === agentUrl('north')
      ? {
          ...{ scope: `gold ${standsFor()}`, account: { account_id: standsFor() } },
          auth: { type: 'bearer', token: 'own' },
        }
      : { scope: 'public' }
  const brief = createBrief({
    ...{ fanout, upstreams, access, clock: systemClock },
    standing: createStanding({ upstreams, access, judge: () => judgeThat({}) }),
    feed: { see: () => undefined, prepared: async () => undefined },
    ranking: async () => ({ hits: [], relevance: { labels: [], of: new Map(), first: 0 } }),
  })
  return { brief, sent, fanout }
}

const spec = { signal_spec: 'coffee' }

test('an account is named, and its credential used, only where the reader has one', async (t) => {
  const { brief, sent, fanout } = stage([status('north'), status('south')])
  brief.ask(spec, { ...buyer, account: 'gold' }, Date.now() + 1_000)
  t.match(sent[0], {
    agentUrl: agentUrl('north'),
    args: { account: { account_id: 'nw_77' } },
    auth: { token: 'own' },
  })
  t.equal(sent[1]?.args.account, undefined)
  t.equal(sent[1]?.auth, undefined)
  fanout.close()
})

test('what one account was answered is never shared with another reader', async (t) => {
  const { brief, sent, fanout } = stage([status('north')])
  brief.ask(spec, { ...buyer, account: 'gold' }, Date.now() + 1_000)
  brief.ask(spec, buyer, Date.now() + 1_000)
  brief.ask(spec, { ...buyer, account: 'silver' }, Date.now() + 1_000)
  t.equal(sent.length, 3)
  brief.ask(spec, { ...buyer, caller: 'another' }, Date.now() + 1_000)
  t.equal(sent.length, 3, 'the public answer is everybody`s')
  fanout.close()
})

test('what an account was answered is not shared with the account that its name stands for later', async (t) => {
  let account = 'nw_77'
  const { brief, sent, fanout } = stage([status('north')], () => account)
  const ask = () => brief.ask(spec, { ...buyer, account: 'gold' }, Date.now() + 1_000)
  ask()
  ask()
  t.equal(sent.length, 1)
  account = 'nw_78'
  ask()
  t.match(sent[1], { args: { account: { account_id: 'nw_78' } } })
  fanout.close()
})

test('references go where they mean something; filters and destinations go with the question', async (t) => {
  const { brief, sent, fanout } = stage([status('north'), status('south')])
  const provider = { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's' } as const
  const own = { scope: 'signal_source', signal_source_url: agentUrl('south'), signal_id: 's' } as const
  const filters = { max_cpm: 3 }
  brief.ask({ ...spec, signal_refs: [provider, own], filters, countries: ['DE'] }, buyer, Date.now() + 1_000)
  t.same(sent[0]?.args.signal_refs, [provider])
  t.same(sent[1]?.args.signal_refs, [provider, own])
  t.match(sent[0]?.args, { discovery_mode: 'brief', filters, countries: ['DE'] })
  fanout.close()
})

test('who is down is not asked; who can only be asked is', async (t) => {
  const { brief, sent, fanout } = stage([
    status('down', { state: 'absent', problem: { reason: 'unreachable', message: '' } }),
    status('brief-only', { state: 'absent', problem: { reason: 'not_enumerable', message: '' } }),
    status('stale', { state: 'stale' }),
  ])
  brief.ask(spec, buyer, Date.now() + 1_000)
  t.same(
    sent.map((one) => one.agentUrl),
    [agentUrl('brief-only'), agentUrl('stale')],
  )
  fanout.close()
})
