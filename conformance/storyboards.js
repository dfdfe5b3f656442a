/** The storyboards of the SDK that the agent's own capabilities select, a row each, a step for every step of theirs. */
import { readFileSync } from 'node:fs'
import {
  loadComplianceIndex,
  resolveStoryboardsForCapabilities,
  runStoryboard,
  setAgentTesterLogger,
} from '@adcp/sdk/testing'
import { failed, passed, skipped } from './outcome.js'
import { caller } from './wire.js'

const silent = () => {}
setAgentTesterLogger({ info: silent, warn: silent, error: silent, debug: silent })

const packageFile = new URL('./node_modules/@adcp/sdk/package.json', import.meta.url)
export const SDK_VERSION = JSON.parse(readFileSync(packageFile, 'utf8')).version
export const RELEASE = loadComplianceIndex().adcp_version

function faultOf({ error, validations = [] }) {
  const wrong = validations.filter((validation) => !validation.passed)
  const words = wrong.map(({ description, error: said, actual, json_pointer: at }) =>
    [description, said, at, actual === undefined ? undefined : JSON.stringify(actual)]
      .filter(Boolean)
      .join(' '),
  )
  return [error, ...words].filter(Boolean).join('; ') || 'failed without a word'
}

function stepsOf(result) {
  const steps = result.phases.flatMap(({ steps: own }) => own)
  const told = steps.map((step) => {
    if (step.skipped) return skipped(step.step_id, skipReason(step))
    return step.passed ? passed(step.step_id) : failed(step.step_id, faultOf(step))
  })
  const across = (result.assertions ?? []).filter((one) => one.scope === 'storyboard' && !one.passed)
  return [...told, ...across.map((one) => failed(one.assertion_id, one.error ?? one.description))]
}

/** The runner's words without the names of our tools, which are the same for every step. */
function skipReason({ skip_reason: reason, skip, error }) {
  const detail = skip?.detail ?? error
  if (!detail) return reason
  return `${reason}: ${detail.replace(/; agent tools: \[.*?\]\./, '')}`
}

/**
 * signal_owned with the signals that get_signals returned in place of those of its author's own agent, whose ids no other
 * agent can have: the steps that follow are judged by what they ask.
 */
function withOwnSignals(storyboard) {
  const copy = structuredClone(storyboard)
  const steps = copy.phases.flatMap(({ steps: own }) => own)
  const search = steps.find(({ id }) => id === 'search_owned_signals')
  search.sample_request.pagination = { max_results: 5 } // further down are rows without a price (exceptions.js)
  search.context_outputs = [
    { key: 'owned_segment_id', path: 'signals[0].signal_agent_segment_id' },
    { key: 'owned_option_id', path: 'signals[0].pricing_options[0].pricing_option_id' },
  ]
  for (const { task, sample_request: request } of steps) {
    if (task !== 'activate_signal') continue
    request.signal_agent_segment_id = '$context.owned_segment_id'
    request.pricing_option_id = '$context.owned_option_id'
  }
  return copy
}

/** A storyboard as it is published, and where its fixtures are nobody's, a variant with ours. */
function variants(storyboard) {
  const published = [{ name: storyboard.id, storyboard }]
  if (storyboard.id !== 'signal_owned') return published
  return [
    ...published,
    { name: 'signal_owned, with ids that get_signals returned', storyboard: withOwnSignals(storyboard) },
  ]
}

/** Those that need a Tributary set up for them. */
const OWN_RUNS = new Set(['signed_requests', 'deterministic_testing'])

/**
 * The rows of one transport. Throws when the agent does not answer: no storyboard is worse than a failed one. `only`: one
 * storyboard, with `options` of the runner. Signatures and the test controller have runs of their own.
 */
export async function runStoryboards(url, transport, key, { only, options } = {}) {
  const capabilities = await caller(url, transport, key)('get_adcp_capabilities', {})
  const { storyboards } = resolveStoryboardsForCapabilities({
    supported_protocols: capabilities.supported_protocols,
    specialisms: capabilities.specialisms,
    major_versions: capabilities.adcp.major_versions,
  })
  const chosen = storyboards.filter(({ id }) => (only ? id === only : !OWN_RUNS.has(id)))
  const rows = []
  for (const { name, storyboard } of chosen.flatMap(variants)) {
    const result = await runStoryboard(`${url}/${transport}`, storyboard, {
      protocol: transport,
      auth: { type: 'bearer', token: key },
      test_kit: { auth: { api_key: key, probe_task: 'get_signals' } },
      allow_http: true,
      ...options,
    })
    rows.push({ part: 'storyboards', release: RELEASE, transport, name, steps: stepsOf(result) })
  }
  return rows
}
