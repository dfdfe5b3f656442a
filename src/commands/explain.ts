/** `tributary explain REF`: asks a running server why a signal or an upstream is, or is not, in its feed. */
import type { Explanation } from '../explain/explain.js'
import { tableWidth } from '../explain/table.js'
import { explanationText } from '../explain/text.js'
import { askServer, type Server } from './operator.js'

export type ExplainCommand = Server & {
  ref: string
  caller: string | undefined
  account: string | undefined
  filters: Record<string, unknown> | undefined
  countries: readonly string[]
  json: boolean
  out: NodeJS.WriteStream
}

function question({ ref, caller, account, filters, countries }: ExplainCommand): URLSearchParams {
  const params = new URLSearchParams({ ref })
  if (caller !== undefined) params.set('caller', caller)
  if (account !== undefined) params.set('account', account)
  if (filters) params.set('filters', JSON.stringify(filters))
  for (const country of countries) params.append('country', country)
  return params
}

/** Prints the explanation. Throws `CommandFailure` when the server cannot be asked or refuses. */
export async function printExplanation(command: ExplainCommand): Promise<void> {
  const { json, out } = command
  const body = (await askServer(command, `/explain?${question(command)}`, 'GET')) as Explanation
  out.write(json ? `${JSON.stringify(body)}\n` : `${explanationText(body, tableWidth(out))}\n`)
}
