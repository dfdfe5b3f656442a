/**
 * Steps that cannot pass, each with the reason. The run fails when a step fails that is not listed here, and says so
 * when a listed one passes, so that this list stays true. docs/conformance.md is the same list for people.
 */
const SIGNING = 'request signing is not offered, and get_adcp_capabilities does not declare it'
const FIXTURE =
  'the step sends a segment id of the storyboard author’s own agent instead of one that get_signals returned'

/** Storyboard or `storyboard/step` -> reason. */
export const EXCEPTIONS = new Map([
  ['signed_requests', SIGNING],
  ['signal_owned/activate_on_platform', FIXTURE],
  ['signal_owned/activate_on_agent', FIXTURE],
])
