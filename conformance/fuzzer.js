/** The SDK's fuzzer over the tools that read; two tenants must get equal answers for what is not theirs. */
import { runConformance } from '@adcp/sdk/conformance'
import { failed, passed } from './outcome.js'
import { RELEASE } from './storyboards.js'

const SEED = 20_261_120
const TOOLS = ['get_adcp_capabilities', 'get_signals']

/**
 * The SDK's A2A client drops the error of a task in state `failed`, which is how the protocol says it
 * (docs/protocol.md#a2a), so its fuzzer takes a proper refusal for none. Its report holds the whole answer: it is
 * judged here by the same rule.
 */
function isProperRefusal({ response }) {
  const task = response?.data?.result
  const data = task?.artifacts?.[0]?.parts?.find((part) => part.kind === 'data')?.data
  return task?.status?.state === 'failed' && /^[A-Z][A-Z0-9_]*$/.test(data?.adcp_error?.code ?? '')
}

export async function runFuzzer(url, transport, key, otherKey) {
  const options = {
    protocol: transport,
    tools: TOOLS,
    seed: SEED,
    authToken: key,
    authTokenCrossTenant: otherKey,
  }
  const report = await runConformance(`${url}/${transport}`, options)
  if (report.totalRuns === 0) throw new Error('The fuzzer ran nothing')
  const faults = report.failures.filter((failure) => transport === 'mcp' || !isProperRefusal(failure))
  const unequal = report.uniformError.filter(({ verdict }) => verdict === 'fail')
  const say = (name, found) => (found.length === 0 ? passed(name) : failed(name, JSON.stringify(found[0])))
  const steps = [
    say('every answer is one of the schema', faults),
    say('refusals do not tell tenants apart', unequal),
  ]
  return [{ part: 'fuzzer', release: RELEASE, transport, name: `fuzzer, seed ${SEED}`, steps }]
}
