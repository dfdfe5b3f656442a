/** What a buyer asks of a running agent from the command line: signals in plain words, and the activation of one. */
import { randomUUID } from 'node:crypto'
import { forTerminal } from '../adcp/redaction.js'
import { renderTable, tableWidth } from '../explain/text-table.js'
import { type Address, callTask } from './address.js'
import { cells, type FeedRow, HEADER } from './feed.js'

type Output = { json: boolean; out: NodeJS.WriteStream }

/** `tributary ask WORDS`: what fits them best, by this agent's own search and those of its upstreams. */
export async function ask(command: Address & Output & { words: string; limit: number }): Promise<void> {
  const { words, limit, json, out } = command
  const input = { signal_spec: words, pagination: { max_results: limit } }
  const answer = await callTask(command, 'get_signals', input)
  const rows = (answer.signals ?? []) as FeedRow[]
  if (json) for (const row of rows) out.write(`${JSON.stringify(row)}\n`)
  else
    out.write(
      `${renderTable(HEADER, rows.map(cells), tableWidth(out))}\n\n${forTerminal(answer.message ?? '')}\n`,
    )
}

export type ActivateCommand = Address &
  Output & {
    handle: string
    destination: { type: string }
    option: string | undefined
    account: string | undefined
    key: string | undefined
    deactivate: boolean
  }

/** `tributary activate HANDLE`. Prints what the agent answers; a repetition with the same `--key` activates nothing twice. */
export async function activate(command: ActivateCommand): Promise<void> {
  const { handle, destination, option, account, key = randomUUID(), deactivate, json, out } = command
  const answer = await callTask(command, 'activate_signal', {
    signal_agent_segment_id: handle,
    destinations: [destination],
    idempotency_key: key,
    ...(option !== undefined && { pricing_option_id: option }),
    ...(account !== undefined && { account: { account_id: account } }),
    ...(deactivate && { action: 'deactivate' }),
  })
  const task = typeof answer.task_id === 'string' ? `\ntask ${answer.task_id}` : ''
  out.write(
    json
      ? `${JSON.stringify(answer)}\n`
      : `${answer.status}: ${forTerminal(answer.message ?? '')}${task}\nkey ${key}\n`,
  )
}
