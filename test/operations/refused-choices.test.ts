/** What a person needs who was refused: the choices that the refusal speaks of. */
import { test } from 'tap'
import { forTerminal } from '../../src/adcp/redaction.js'
import { runCommand } from '../support/command.js'
import { startMcpAgent } from '../support/upstream-agent.js'

test('an activation that has to choose a price is told the prices, without what would steer a terminal', async (t) => {
  const choices = [{ pricing_option_id: 'po_one' }, { pricing_option_id: 'po_\u001b[2Jtwo\u0085' }]
  const refusal = {
    code: 'INVALID_REQUEST',
    message: 'pricing_option_id is required',
    recovery: 'correctable',
    ...{ suggestion: 'Send one of details.choices.', details: { choices } },
  }
  const agent = await startMcpAgent(() => ({ adcp_error: refusal }))
  t.teardown(agent.close)
  const { code, err } = await runCommand(['activate', 'sig_a', '-d', 'platform:dv360', '--url', agent.url])
  t.equal(code, 1)
  const [, said, ...shown] = err.trimEnd().split('\n')
  t.match(said, /^tributary: INVALID_REQUEST: .* Send one of details\.choices\.$/)
  t.same(shown[0], '  {"pricing_option_id":"po_one"}')
  t.equal(shown.length, 2)
  for (const line of shown) t.equal(forTerminal(line), line)
})
