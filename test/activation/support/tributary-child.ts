/** The parent's side of a whole Tributary that is killed: starting it, speaking to it over HTTP, ending it. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type { Checkpoint } from '../../../src/activation/delivery.js'
import { until } from '../../support/upstream-world.js'
import type { Order, Report } from './tributary-process.js'

const PROGRAM = new URL('./tributary-process.js', import.meta.url)
const STARTED_BY_MS = 120_000 // on a machine that does much else

export type Fields = ReturnType<typeof JSON.parse>

export type Child = {
  /** Resolves when its feed is open. */
  opened(): Promise<void>
  /** From now on, whatever comes to this step of an activation stays there. */
  hold(checkpoint: Checkpoint): Promise<void>
  /** Resolves when so many are held. */
  held(count: number): Promise<void>
  /** Sends a task; gives the answer's fields. Rejects when the process dies first. */
  call(transport: 'mcp' | 'a2a', task: string, input: object): Promise<Fields>
  /** It stands still for so long, with whatever it holds in the database. */
  freeze(ms: number): Promise<void>
  /** kill -9; resolves when the process is gone. */
  kill(): Promise<void>
}

async function post(url: string, token: string, body: object, version: Record<string, string>) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${token}`,
    ...version,
  }
  const text = JSON.stringify({ jsonrpc: '2.0', id: 1, ...body })
  const response = await fetch(url, { method: 'POST', headers, body: text })
  return (await response.json()) as Fields
}

async function overMcp(url: string, token: string, name: string, input: object): Promise<Fields> {
  const body = { method: 'tools/call', params: { name, arguments: input } }
  const reply = await post(`${url}/mcp`, token, body, { 'mcp-protocol-version': '2025-06-18' })
  return reply.result.structuredContent
}

async function overA2a(url: string, token: string, skill: string, input: object): Promise<Fields> {
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill, input } }] }
  const reply = await post(
    `${url}/a2a`,
    token,
    { method: 'SendMessage', params: { message } },
    { 'a2a-version': '1.0' },
  )
  return reply.result.task.artifacts[0].parts.findLast((part: Fields) => part.data).data
}

/** A process that is about to become a Tributary: what it loads meanwhile is not waited for. `flags` are Node's. */
export function prepareTributary(flags: readonly string[] = []) {
  const child = fork(PROGRAM, { execArgv: [...flags] })
  const gone = once(child, 'exit')
  const send = (order: Order) => child.send(order)
  let url: string | undefined
  let holding = 0
  let held = 0
  child.on('message', (report: Report) => {
    if (report.kind === 'open') url = report.url
    else if (report.kind === 'holding') holding += 1
    else held += 1
  })

  async function kill(): Promise<void> {
    child.kill('SIGKILL')
    await gone
  }

  /** Runs on the text of a configuration file; `hold`: a step where it holds what it does from its start. */
  function run(configuration: string, token: string, hold?: Checkpoint): Child {
    send({ run: configuration, ...(hold && { hold }) })
    return {
      opened: () => until('Tributary is open', () => url !== undefined, STARTED_BY_MS),
      async hold(checkpoint) {
        const before = holding
        send({ hold: checkpoint })
        await until('it holds what comes', () => holding > before)
      },
      held: (count) => until(`${count} are held`, () => held === count, STARTED_BY_MS),
      async call(transport, task, input) {
        if (url === undefined) throw new Error('Tributary is not open yet')
        return await (transport === 'mcp' ? overMcp : overA2a)(url, token, task, input)
      },
      async freeze(ms) {
        child.kill('SIGSTOP')
        await wait(ms)
        child.kill('SIGCONT')
      },
      kill,
    }
  }

  return { run, kill }
}
