import { test } from 'tap'
import { printCheck } from '../../src/commands/check.js'
import { explanationText } from '../../src/commands/explanation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { startOver } from '../support/federation-over.js'
import { createOutput } from '../support/output.js'
import { startMcpAgent, type TaskHandler, type ToolList } from '../support/upstream-agent.js'
import { row, until } from '../support/upstream-world.js'

const failed = (code: string, message: string) => ({ status: 'failed', adcp_error: { code, message } })
const speaks = (more: object = {}) => ({
  adcp: { supported_versions: ['3.1'] },
  supported_protocols: ['signals'],
  ...more,
})
const tool = (name: string): ToolList[number] => ({ name, inputSchema: { type: 'object' } })
const SIGNALS_TOOLS = [tool('get_adcp_capabilities'), tool('get_signals'), tool('activate_signal')]

type Kind = {
  kind: string
  answer: TaskHandler
  tools?: ToolList
  settings?: object
  /** What is told everywhere: what was tried, what came back, and who or what can change it. */
  told: readonly RegExp[]
}

const ownPrices =
  (wholesale: object = {}): TaskHandler =>
  (task) =>
    task === 'get_adcp_capabilities'
      ? speaks({ signals: { discovery_modes: ['wholesale'] } })
      : { signals: [row(1)], cache_scope: 'account', wholesale_feed_version: 'v1', ...wholesale }

const KINDS: Record<string, Kind> = {
  validating: {
    kind: 'answers every question with a validation error',
    answer: (task) =>
      task === 'get_adcp_capabilities' ? speaks() : failed('VALIDATION_ERROR', 'brand is required'),
    told: [
      /not_enumerable: asked for its whole feed, get_signals: VALIDATION_ERROR: brand is required; /,
      /there was nothing else to ask: no published definition and no seed question names its signals/,
      /\[whoever runs it, by a wholesale feed; seeds of its entry under upstreams; or providers that authorize it\]/,
    ],
  },
  speechless: {
    kind: 'answers even the question what it can with a validation error',
    answer: () => failed('VALIDATION_ERROR', 'brand is required'),
    settings: { seeds: ['autos'] },
    told: [/agent_error: get_signals: VALIDATION_ERROR: brand is required \[whoever runs it\]/],
  },
  demanding: {
    kind: 'answers nobody without an account of its own',
    answer: (task) =>
      task === 'get_adcp_capabilities'
        ? speaks({ signals: { discovery_modes: ['wholesale'] } })
        : failed('ACCOUNT_NOT_FOUND', 'open an account first'),
    told: [
      /account_needed: get_signals: ACCOUNT_NOT_FOUND: open an account first; /,
      /asked again with the account of a new buyer \(tributary\.invalid\), get_signals: ACCOUNT_NOT_FOUND: open an account first/,
      /\[callers\.keys\[\]\.accounts, .*listen\.public_url, .*; or whoever runs it\]/,
    ],
  },
  requiring: {
    kind: 'names the account in its message alone, and has no feed',
    answer: (task) =>
      task === 'get_adcp_capabilities'
        ? speaks()
        : failed('INVALID_REQUEST', "'account' is a required property"),
    told: [
      /account_needed: asked for its whole feed, get_signals: INVALID_REQUEST: 'account' is a required property; /,
      /\[callers\.keys\[\]\.accounts/,
    ],
  },
  selling: {
    kind: 'sells media: neither its tools nor its capabilities know signals',
    answer: (task) =>
      task === 'get_adcp_capabilities' ? speaks({ supported_protocols: ['media_buy'] }) : undefined,
    tools: [tool('get_products'), tool('create_media_buy')],
    told: [
      /not_signals: asked for its whole feed, get_signals: TOOL_ERROR: Unknown tool: get_signals; /,
      /its capabilities name media_buy, not signals; its list of tools has get_products, create_media_buy, not get_signals/,
      /\[exclude: true on its entry under upstreams, .*whoever runs it or lists it\]/,
    ],
  },
  personal: {
    kind: 'states prices for accounts, asked without one',
    answer: ownPrices(),
    told: [
      /cache_scope account without being asked for one: its prices are shown to nobody \(account_prices: public /,
    ],
  },
  open: {
    kind: 'the same, with account_prices: public',
    answer: ownPrices(),
    settings: { account_prices: 'public' },
    told: [/cache_scope account .*its prices are shown to all callers \(account_prices: public\)/],
  },
}

type Shown = Extract<Parameters<typeof explanationText>[0]['upstreams'], readonly unknown[]>[number]

/** The lines that the console shows of an upstream. */
const textOf = ({ problem, notes }: Shown) =>
  [...(problem ? [`${problem.reason}: ${problem.message} [${problem.remedy}]`] : []), ...notes].join('; ')

test('explain, check and the console give each agent its own reason', async (t) => {
  const upstreams = await Promise.all(
    Object.entries(KINDS).map(async ([id, { answer, tools = SIGNALS_TOOLS, settings }]) => {
      const agent = await startMcpAgent(answer, undefined, tools)
      t.teardown(() => agent.close())
      return { id, url: agent.url, ...settings }
    }),
  )
  const over = await startOver(t, upstreams)
  const shared = { authorization: { policy: 'observe' }, egress: { allow_networks: ['127.0.0.0/8'] } }
  const checked = createOutput()
  const config = parseConfig('test', JSON.stringify({ upstreams, ...shared }), {})
  const checks = { config, json: false, upstream: undefined, clock: systemClock, random: Math.random }
  const checking = t.rejects(printCheck({ ...checks, out: checked.out, err: checked.out }), {
    name: 'CommandFailure',
  })
  const statuses = () => over.federation.statuses()
  await until('an outcome of each', () => statuses().every(({ state }) => state !== 'starting'))

  const lineOf = (why: string, id: string) =>
    why.split('\n').findLast((line) => line.startsWith(`${id}: `)) ?? ''
  const inConsole = (await (await over.get('/console/api/upstreams')).json()) as { upstreams: Shown[] }
  await checking
  const check = checked.text()
  for (const [id, { kind, told }] of Object.entries(KINDS)) {
    const explanation = (await over.explain(id)) as Parameters<typeof explanationText>[0]
    const places = {
      'tributary explain': lineOf(explanationText(explanation, 120), id),
      'tributary check': lineOf(check, id),
      'the console': inConsole.upstreams
        .filter((each) => each.id === id)
        .map(textOf)
        .join(),
    }
    for (const [place, text] of Object.entries(places)) {
      for (const words of told) t.match(text, words, `${place}: ${kind}`)
    }
  }
})
