/** Asks every scenario of every official client and holds what the client made of it against what it means. */
import { failed, passed } from '../outcome.js'
import { KEYS } from '../server.js'
import { caller } from '../wire.js'
import { A2A_0_3, A2A_1 } from './a2a-sdk.js'
import { ADCP_SDK_A2A, ADCP_SDK_MCP } from './adcp-sdk.js'
import { MCP_SDK } from './mcp-sdk.js'
import { finder, SCENARIOS } from './scenarios.js'
import { openHeldWorld } from './world.js'

const CLIENTS = [MCP_SDK, ADCP_SDK_MCP, A2A_0_3, A2A_1, ADCP_SDK_A2A]
const PATIENCE_MS = 10_000

/** The protocol's SDK has one word for what ended without a result. */
const ONE_FAILURE = { rejected: 'failed', canceled: 'failed' }

function verdict(name, { status, named }, found) {
  const wrong = [
    found.status !== status && `status ${found.status}, not ${status}`,
    named && !found.taskId && 'the task is not named',
  ].filter(Boolean)
  return wrong.length === 0 ? passed(name) : failed(name, `${wrong.join('; ')}; ${found.text}`)
}

/** A step of its own: a client can know that a task failed, and lose why. */
function codeVerdict(name, { code }, found) {
  return found.code === code ? passed(name) : failed(name, `code ${found.code}, not ${code}; ${found.text}`)
}

/** Whether somebody who reads the text alone could go on. */
function textVerdict(name, needed, { data, text }) {
  if (needed !== undefined && text.includes(needed)) return passed(name)
  return failed(name, data && `${needed} is not in: ${text}`)
}

async function ask(client, scenario, request) {
  const end = Date.now() + PATIENCE_MS
  for (;;) {
    const found = await (scenario.words ? client.say(scenario.words) : client.ask(scenario.task, request))
    if (!scenario.patient || found.status === scenario.want.status || Date.now() > end) return found
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function runClient({ name, transport, open }) {
  const world = await openHeldWorld()
  const steps = []
  try {
    const call = caller(world.url, transport, KEYS.other)
    const state = { find: finder(call) }
    const client = await open(world.url, KEYS[transport])
    for (const scenario of SCENARIOS) {
      if (scenario.words && !client.say) continue // tools take no plain text
      const step = `${scenario.task}: ${scenario.state}`
      try {
        scenario.before?.(world)
        const request = await scenario.request?.(state)
        const { status } = scenario.want
        const wanted = { ...scenario.want, status: (client.oneFailure && ONE_FAILURE[status]) || status }
        const found = await ask(client, { ...scenario, want: wanted }, request)
        scenario.learn?.(state, found, request)
        steps.push(verdict(step, wanted, found))
        if (wanted.code !== undefined) steps.push(codeVerdict(`${step}, its code`, wanted, found))
        if (client.readsText && scenario.text)
          steps.push(textVerdict(`${step}, by its text alone`, scenario.text(found.data), found))
      } catch (error) {
        steps.push(failed(step, error.message))
      } finally {
        scenario.after?.(world)
      }
    }
    await client.close()
  } finally {
    await world.close()
  }
  return { part: 'clients', release: '3.1', transport, name, steps }
}

export async function runClients() {
  return await Promise.all(CLIENTS.map(runClient))
}
