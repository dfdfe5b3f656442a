/** The storyboards that the agent's own capabilities select, and the fuzzer: one line for each. */
import { runConformance } from '@adcp/sdk/conformance'
import { comply, setAgentTesterLogger } from '@adcp/sdk/testing'
import { EXCEPTIONS } from './exceptions.js'

const RUN_MS = 240_000
const SEED = 20_261_120
const silent = () => {}

setAgentTesterLogger({ info: silent, warn: silent, error: silent, debug: silent })

/** The storyboard that a scenario belongs to: the longest executed id that its name begins with. */
function ownerOf(scenario, ids) {
  const owners = ids.filter((id) => scenario === id || scenario.startsWith(`${id}/`))
  return owners.sort((a, b) => b.length - a.length)[0] ?? scenario
}

function tally(report) {
  const lines = new Map(
    report.storyboards_executed.map((id) => [id, { passed: 0, skipped: 0, why: new Set() }]),
  )
  for (const { scenarios } of report.tracks) {
    for (const { scenario, steps } of scenarios) {
      const line = lines.get(ownerOf(scenario, report.storyboards_executed))
      for (const step of line ? (steps ?? []) : []) {
        if (step.skipped) {
          line.skipped += 1
          line.why.add(step.skip_reason)
        } else if (step.passed) line.passed += 1
      }
    }
  }
  return lines
}

const words = ({ error, validation, expected }) =>
  String(error ?? validation?.description ?? expected ?? 'failed')
    .replaceAll(/\s+/g, ' ')
    .slice(0, 160)

/** `{ lines, unexpected }`: what to print, and how many steps failed that may not. */
export async function runStoryboards(url, protocol, key) {
  const report = await comply(url, {
    protocol,
    auth: { type: 'bearer', token: key },
    test_kit: { auth: { api_key: key, probe_task: 'get_signals' } },
    allow_http: true,
    timeout_ms: RUN_MS,
  })
  const failures = report.failures ?? []
  const lines = []
  let unexpected = 0
  for (const [id, { passed, skipped, why }] of tally(report)) {
    const failed = failures.filter((failure) => failure.storyboard_id === id)
    const surprising = failed.filter(
      ({ step_id: step }) => !EXCEPTIONS.has(id) && !EXCEPTIONS.has(`${id}/${step}`),
    )
    unexpected += surprising.length
    const verdict =
      surprising.length > 0
        ? 'FAILED'
        : failed.length > 0
          ? 'listed'
          : passed === 0 && skipped > 0
            ? 'skipped'
            : 'passed'
    const reasons = skipped > 0 ? ` (${[...why].join(', ')})` : ''
    const counts = `${passed} passed, ${failed.length} failed, ${skipped} skipped${reasons}`
    lines.push(`${protocol}  ${verdict.padEnd(8)}${id.padEnd(42)}${counts}`)
    for (const failure of surprising) lines.push(`     ${failure.step_id}: ${words(failure)}`)
  }
  return { lines, unexpected }
}

/**
 * The runner's A2A client drops the error of a task in state `failed`, which is how the protocol says it
 * (docs/protocol.md#a2a), so the fuzzer takes a proper refusal for none. Its report holds the whole answer: it is
 * judged here by the same rule.
 */
function isProperRefusal({ response }) {
  const task = response?.data?.result
  const data = task?.artifacts?.[0]?.parts?.find((part) => part.kind === 'data')?.data
  return task?.status?.state === 'failed' && /^[A-Z][A-Z0-9_]*$/.test(data?.adcp_error?.code ?? '')
}

/** The fuzzer over the tools that read; two tenants must get equal answers for what is not theirs. */
export async function runFuzzer(url, protocol, key, otherKey) {
  const tools = ['get_adcp_capabilities', 'get_signals']
  const options = { protocol, tools, seed: SEED, authToken: key, authTokenCrossTenant: otherKey }
  const report = await runConformance(url, options)
  const failures = report.failures.filter((failure) => protocol === 'mcp' || !isProperRefusal(failure))
  const unequal = report.uniformError.filter(({ verdict }) => verdict === 'fail')
  const unexpected = failures.length + unequal.length
  const counts = `${report.totalRuns} runs, ${failures.length} failed, ${unequal.length} unequal refusals`
  const lines = [
    `${protocol}  ${(unexpected === 0 ? 'passed' : 'FAILED').padEnd(8)}${'fuzzer'.padEnd(42)}${counts}`,
  ]
  for (const one of [...failures, ...unequal]) lines.push(`     ${JSON.stringify(one).slice(0, 1_500)}`)
  return { lines, unexpected }
}
