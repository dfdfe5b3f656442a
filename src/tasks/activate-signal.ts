/** activate_signal: makes a signal live, or switches it off, at the upstream that offers it (specification, "Operation `activate_signal`"). */
import type { Activation } from '../activation/activation.js'
import { ActivateSignalRequest } from '../adcp/requests/activate-signal.js'
import { ActivateSignalResponse } from '../adcp/responses.js'
import { destinationsOf } from '../adcp/signal.js'
import type { Task } from './task.js'

export function activateSignal({
  activate,
}: Pick<Activation, 'activate'>): Task<typeof ActivateSignalRequest> {
  return {
    name: 'activate_signal',
    title: 'Activate a signal',
    description:
      'Makes a signal live on the destinations you name, or with action "deactivate" switches it off. Take ' +
      'signal_agent_segment_id and pricing_option_id unchanged from get_signals. When several upstreams offer the ' +
      'signal, the answer lists the choices. Send a fresh idempotency_key for each activation and the same one when ' +
      'you repeat a request: nothing is activated twice. An answer with task_id is not done yet: poll get_task_status.',
    request: ActivateSignalRequest,
    response: ActivateSignalResponse,
    destructive: true, // deactivate
    mutating: true,
    handle: (input, { caller, deadline }) =>
      activate({ ...input, destinations: destinationsOf(input.destinations) }, caller, deadline),
  }
}
