/**
 * Steps that cannot pass, each with the reason. The run fails when a step fails that is not listed here, and says so
 * when a listed one passes, so that this list stays true. docs/conformance.md is the same list for people.
 */
const SIGNING = 'request signing is not offered, and get_adcp_capabilities does not declare it'
const PROBE = 'the runner’s raw probe speaks MCP to the A2A endpoint; over MCP the storyboard passes'
const UNPRICED =
  'the runner holds a 3.1 answer against the 3.0.6 schema, where a signal without a price of its own cannot be said'
const FIXTURE =
  'the step sends a segment id of the storyboard author’s own agent instead of one that get_signals returned'

const DESTINATION =
  'the step activates on a destination and for an account of the storyboard author’s own world, which no upstream serves'

/** Storyboard or `storyboard/step` -> reason. */
export const EXCEPTIONS = new Map([
  ['signed_requests', SIGNING],
  ['security_baseline/probe_api_key', PROBE],
  ['security_baseline/assert_mechanism', PROBE],
  ['signal_marketplace/governance_denied/get_signals_list', UNPRICED],
  ['signals_baseline/activate_on_agent', DESTINATION],
  ['signal_marketplace/activate_on_platform', DESTINATION],
  ['signal_owned/activate_on_platform', FIXTURE],
  ['signal_owned/activate_on_agent', FIXTURE],
])
