/**
 * What is wrong with the `push_notification_config` of a request, as far as the request alone tells. Whether its url can be reached
 * is asked only where somebody will be told by it (events/webhook.ts).
 */
import { compileCheck, type Violation } from '../adcp/schema.js'
import { PushConfig } from '../events/webhook.js'

const FIELD = 'push_notification_config'
const check = compileCheck(PushConfig)

type Carrying = { [FIELD]?: object }

/** The protocol's schema holds also where nobody is told by it. */
export function pushFaults({ [FIELD]: push }: Carrying): Violation[] {
  if (push === undefined) return []
  const checked = check(push)
  return checked.ok ? [] : checked.issues.map((issue) => ({ ...issue, pointer: `/${FIELD}${issue.pointer}` }))
}

/** What 3.2 asks of a request beyond 3.1: a notification names the operation that it is about. */
export function unnamedOperation({ [FIELD]: push }: Carrying): Violation[] {
  if (push === undefined || 'operation_id' in push) return []
  return [
    {
      pointer: `/${FIELD}/operation_id`,
      message: 'is required',
      keyword: 'required',
      suggestion: 'Send an id of your own for this operation, such as a UUID: the notification repeats it.',
    },
  ]
}
