/** What the commands of a buyer make of agents that are not as the protocol wants them. */
import { type Test, test } from 'tap'
import { forTerminal } from '../../src/adcp/redaction.js'
import { runCommand } from '../support/command.js'
import { demoConfig } from '../support/demo-config.js'
import { startMcpAgent } from '../support/upstream-agent.js'

type Row = Record<string, unknown>

/** Runs a command at an agent that answers so. */
async function at(t: Test, answer: (asked: Row) => Row, ...args: string[]) {
  const { file } = await demoConfig(t)
  const agent = await startMcpAgent((_task, asked) => answer(asked))
  t.teardown(agent.close)
  return await runCommand([...args, '--config', file, '--url', agent.url])
}

const steep = { toString: 1, valueOf: 1 } // throws where it is made a text
const ROWS = [
  { signal_agent_segment_id: 'bare' },
  {
    signal_agent_segment_id: 'odd',
    name: 7,
    signal_type: steep,
    data_provider: steep,
    deployments: {},
    pricing_options: 'free',
    ext: { tributary: { offers: steep } },
  },
  {
    signal_agent_segment_id: 'hollow',
    name: 'hollow',
    deployments: [null, { is_live: true }],
    pricing_options: [null, { model: 'cpm', cpm: steep, currency: steep }, { model: steep }],
    ext: { tributary: { offers: [null, { upstream: steep }] } },
  },
  null,
]

for (const args of [['feed'], ['ask', 'anything']]) {
  test(`${args[0]} shows what a row has, whatever it lacks`, async (t) => {
    const answer = { status: 'completed', signals: ROWS, incomplete: [null, { scope: steep }] }
    const { code, out, err } = await at(t, () => answer, ...args)
    t.equal(code, 0, err)
    t.match(out, /^ .*bare$/m)
    t.match(out, /odd$/m)
    t.match(out, /^hollow.* 1 of 1 .*hollow$/m)
  })
}

test('feed ends when the pages lead back to one that was read, or lead nowhere', async (t) => {
  const page = (pagination: Row) => ({ status: 'completed', signals: [{ name: 'again' }], pagination })
  const loops = await at(t, () => page({ has_more: true, cursor: 'here' }), 'feed')
  t.match(loops, { code: 1, out: '', err: /lead back to one that was read/ })
  const nowhere = await at(t, () => page({ has_more: true }), 'feed')
  t.match(nowhere, { code: 1, out: '', err: /says that more pages follow, and not how/ })
})

const COMMANDS = [['feed'], ['ask', 'anything'], ['activate', 'seg', '--destination', 'platform:somewhere']]

test('nothing of an answer steers the terminal', async (t) => {
  const steering = '\u001b]52;c;bGll\u0007\u001b[2Jgone\u0085away'
  const words = { wholesale_feed_version: steering, message: steering, task_id: steering }
  for (const args of COMMANDS) {
    for (const status of ['completed', steering]) {
      const { code, out, err } = await at(t, () => ({ ...words, status, signals: [] }), ...args)
      const [wanted, text] = status === 'completed' ? [0, out] : [1, err]
      t.equal(code, wanted, err)
      t.match(text, /gone away/)
      for (const line of `${out}\n${err}`.split('\n')) t.equal(forTerminal(line), line)
    }
  }
})

test('a warning is told beside the rows: a filter that is not known restricts nothing', async (t) => {
  const warning = {
    code: 'UNKNOWN_FILTER',
    severity: 'warning',
    message: 'Not known.',
    field: 'filters.colour',
  }
  const answer = { status: 'completed', signals: [], errors: [warning] }
  const feed = ['feed', '--filters', '{"colour":"red"}']
  for (const args of [feed, [...feed, '--json'], ['ask', 'anything']]) {
    const { code, err } = await at(t, () => answer, ...args)
    t.equal(code, 0)
    t.equal(err, 'tributary: warning: UNKNOWN_FILTER: filters.colour: Not known.\n')
  }
})
