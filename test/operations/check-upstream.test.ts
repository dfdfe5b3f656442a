import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { printCheck } from '../../src/commands/check.js'
import { loadConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { runCommand } from '../support/command.js'
import { createOutput } from '../support/output.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent, type ToolList } from '../support/upstream-agent.js'
import { row } from '../support/upstream-world.js'

const text = { type: 'string' }
const TOOLS: ToolList = [
  {
    name: 'get_signals',
    inputSchema: {
      type: 'object',
      properties: { signal_spec: text, deliver_to: {}, max_results: { type: 'integer', maximum: 1_000 } },
      additionalProperties: false,
    },
  },
  {
    name: 'activate_signal',
    inputSchema: {
      type: 'object',
      properties: { signals_agent_segment_id: text, platform: text, account: text },
      additionalProperties: false,
    },
  },
  { name: 'tasks_get', inputSchema: { type: 'object', properties: { task_id: text } } },
]

/** What the command prints, without a process of its own, and how it fails. */
async function printed(file: string, upstream: string | undefined, json = false) {
  const config = await loadConfig(file, {})
  const { out, text } = createOutput()
  const failure = await printCheck({
    ...{ config, json, upstream, clock: systemClock, random: Math.random, out, err: out },
  }).then(
    () => undefined,
    (error: Error) => error,
  )
  return { failure, out: text() }
}

test('check shows one upstream argument by argument', async (t) => {
  const pricing = { cpm: 2, currency: 'USD' }
  const rows = Array.from({ length: 575 }, (_, at) => row(at, { pricing_options: undefined, pricing }))
  const agent = await startMcpAgent(
    (task, { max_results: size = 10 }) =>
      task === 'get_signals' ? { result: { signals: rows.slice(0, size as number) } } : undefined,
    { sessions: false, json: true },
    TOOLS,
  )
  t.teardown(agent.close)
  const file = join(await temporaryFolder(t), 'config.json')
  const config = {
    upstreams: [{ id: 'old', url: agent.url, seeds: ['everything'] }],
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'tridentauto.example': 'http://127.0.0.1:2' } },
  }
  await writeFile(file, JSON.stringify(config))
  const [{ code, out, err }, stranger, whole] = await Promise.all([
    runCommand(['check', '--config', file, '--upstream', 'old']),
    printed(file, 'young'),
    printed(file, undefined),
  ])
  t.match([code, err], [1, /nothing would be federated/], 'as without --upstream')
  t.match(out, `old  ${agent.url}  mcp, release older`)
  t.match(out, 'fresh, rows read: at least 575, published: 0')
  t.match(
    out,
    /^- pricing is read as pricing_options\n- an answer that stands whole under one key, result or response, is read without that key\n- it/m,
  )
  t.match(out, /- it is not known to take deactivations/)
  t.match(
    out,
    /- it gives as many rows as it is asked for \(max_results\), 1000 at most by its list of tools/,
  )
  for (const line of [
    /^get_signals +discovery_mode +is not sent +its list of tools$/m,
    /^ +signal_spec +signal_spec +its list of tools$/m,
    /^ +pagination +max_results +its list of tools$/m,
    /^ +destinations +deliver_to +its list of tools$/m,
    /^activate_signal +signal_agent_segment_id +signals_agent_segment_id +its list of tools$/m,
    /^ +destinations +platform, account +its list of tools$/m,
    /^ +action +is not sent +its list of tools$/m,
    /^get_task_status \(as tasks_get\) +task_id +task_id +its list of tools$/m,
    /^report_usage +usage +usage +nothing says otherwise$/m,
  ]) {
    t.match(out, line)
  }
  t.match(stranger.failure, {
    ...{ name: 'CommandFailure', exitCode: 1, message: /no upstream has the id young; known: old/ },
  })
  t.match(whole.out, /^why not more:\nold: 575 withheld, unreachable: the provider's file could not be had/m)
})

test('check of one upstream asks nobody else', async (t) => {
  const asked: string[] = []
  const agentNamed = async (name: string) => {
    const agent = await startMcpAgent(
      (task) => {
        asked.push(name)
        return task === 'get_signals' ? { signals: [row(1)] } : undefined
      },
      { sessions: false, json: true },
      TOOLS,
    )
    t.teardown(agent.close)
    return { id: name, url: agent.url, seeds: ['everything'] }
  }
  const upstreams = [await agentNamed('one'), await agentNamed('other')]
  const file = join(await temporaryFolder(t), 'config.json')
  await writeFile(
    file,
    JSON.stringify({
      upstreams,
      egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'tridentauto.example': 'http://127.0.0.1:2' } },
    }),
  )
  const { failure, out } = await printed(file, 'one', true)
  t.match(failure, { exitCode: 1 }, 'its provider has no file')
  t.match(JSON.parse(out), { upstreams: [{ id: 'one', rows: 1 }], speaks: { release: 'older' } })
  t.same([...new Set(asked)], ['one'])
})

test('check of an agent that is not there fails, as a check of all does', async (t) => {
  const file = join(await temporaryFolder(t), 'config.json')
  const upstreams = [{ id: 'gone', url: 'http://127.0.0.1:2/mcp' }]
  await writeFile(file, JSON.stringify({ upstreams, egress: { allow_networks: ['127.0.0.0/8'] } }))
  for (const json of [true, false]) {
    const { failure, out } = await printed(file, 'gone', json)
    t.match(failure, { name: 'CommandFailure', exitCode: 1, message: 'nothing would be federated' })
    t.match(out, /absent/)
  }
})
