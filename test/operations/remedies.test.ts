import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { FAILURES, fileProblemText, problemText, whyNotMore } from '../../src/explain/remedies.js'
import { createEgress } from '../../src/net/egress.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

test('each reason says what came back, and what or who can change it', async (t) => {
  t.equal(
    problemText({ reason: 'unreachable', message: 'get_signals: no connection (ECONNREFUSED)' }),
    'unreachable: get_signals: no connection (ECONNREFUSED) [whoever runs it; for a private certificate authority NODE_EXTRA_CA_CERTS]',
  )
  t.equal(
    problemText({ reason: 'refused', message: 'get_signals: 10.0.0.7' }),
    'refused: get_signals: 10.0.0.7 [egress.allow_networks, egress.hosts, or https at a public address]',
  )
  t.match(
    fileProblemText({ reason: 'unreachable', message: 'HTTP 503' }),
    'unreachable: HTTP 503 [the provider',
  )
  t.equal(fileProblemText({ reason: 'new', message: 'HTTP 503' }), 'new: HTTP 503', 'without words for it')
  t.equal(
    whyNotMore({ withheld: [['unreachable', 32]], notes: [], dropped: {} }),
    "32 withheld, unreachable: the provider's file could not be had [the provider, or egress]",
    'it is not the agent that is unreachable',
  )
  const line = whyNotMore({ withheld: [['outranked', 16]], notes: ['a note'], dropped: { bad_name: 1 } })
  t.match(line, /^16 withheld, outranked: .*; a note; 1 dropped: bad_name \[whoever runs it\]$/)
})

test('the page for operators has every reason, and every setting that is named is one', async (t) => {
  const [upstreams, authorization, configuration] = await Promise.all(
    ['upstreams', 'authorization', 'configuration'].map((page) => readFile(`docs/${page}.md`, 'utf8')),
  )
  const internal = ['backing_off', 'unrepeatable', 'aborted', 'unknown_upstream']
  for (const reason of Object.keys(FAILURES).filter((each) => !internal.includes(each))) {
    t.match(upstreams, `\`${reason}\``, reason)
  }
  t.match(authorization, '`outranked`')
  const settings =
    Object.values(FAILURES)
      .map(([, who]) => who)
      .join(' ')
      .match(/\b(?:egress|defaults|limits)\.[a-z_]+/g) ?? []
  t.ok(settings.length > 5)
  for (const setting of new Set(settings)) t.match(configuration, setting.split('.')[1], setting)
})

test('a place that may not be reached is named with the setting that opens it', async (t) => {
  const refused = async (policy: { allowHttp: boolean; allowNetworks: string[] }, url: string) => {
    const egress = createEgress({ policy: { ...policy, hosts: {} } })
    t.teardown(() => egress.close())
    return await egress.send({ url, timeoutMs: 5_000, maxBytes: 1_000, redirects: 'same-site' })
  }
  const strict = { allowHttp: false, allowNetworks: [] }
  t.match(await refused(strict, 'http://127.0.0.1:9/'), {
    reason: 'refused',
    message: '127.0.0.1 is not public and may not be reached over http (egress.allow_networks, egress.hosts)',
  })
  t.match(await refused(strict, 'http://93.184.215.14/'), {
    message: '93.184.215.14 may be reached over https only (egress.allow_http, egress.hosts)',
  })
})

test('what is told of an upstream says which task was tried', async (t) => {
  const agent = await startMcpAgent((task) =>
    task === 'get_signals'
      ? { status: 'failed', adcp_error: { code: 'CATALOG_OFFLINE', message: 'tomorrow' } }
      : { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } },
  )
  t.teardown(agent.close)
  const told: object[] = []
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), {
    onTransition: (transition) => told.push(transition),
  })
  await upstreams.start()
  await until('a failure', () => upstreams.statuses()[0]?.problem !== undefined)
  const problem = { reason: 'agent_error', message: 'get_signals: CATALOG_OFFLINE: tomorrow' }
  t.match(upstreams.statuses(), [{ problem }])
  t.match(told, [{ upstream: 'a', from: 'starting', to: 'absent', ...problem }], 'the log says it too')
})
