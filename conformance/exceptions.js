/**
 * Steps that fail and may, one by one, each with the reason. An exception that passes, or that names no step, fails the
 * run: this list cannot outlive its reasons.
 */
import { RELEASE } from './storyboards.js'

const PROBE = 'the runner’s raw probe speaks MCP to the A2A endpoint; over MCP the step passes'
const UNPRICED =
  'the SDK names no release (adcp_major_version alone), is answered by 3.1, and holds that against 3.0.6, which has no signal without a price'
const FIXTURE =
  'the step sends the segment id of its author’s own agent; the variant of the storyboard with our ids is below'
const DROPPED =
  'the SDK’s A2A client drops the answer of a task in state `failed`, with the error in it; over MCP it reads the error'
const OTHER_TASK =
  'the vector calls create_media_buy, which is no task of this agent: it is refused as unknown, not for its missing signature'
const REVOKED =
  'a revoked key leaves its owner’s key set, so it is unknown: lists of revoked keys are not read'
const NO_CAP = 'not yet: a key’s signatures are not counted apart from its caller’s rate limit'
const TWO_TYPES =
  'a request with two content types is refused as such (415) before its signature is looked at'
const NOT_SENT = 'the grader fails before it sends anything: it cannot sign with the key of the vector'
const SIGNED = `${RELEASE} mcp signed_requests`

const A2A_SDK = '3.1 a2a @adcp/sdk'

const both = (rest, reason) => ['mcp', 'a2a'].map((transport) => [rest(transport), reason])

/** `release transport storyboard step` -> reason. */
export const EXCEPTIONS = new Map([
  [`${RELEASE} a2a security_baseline probe_api_key`, PROBE],
  [`${RELEASE} a2a security_baseline assert_mechanism`, PROBE],
  ...both((over) => `${RELEASE} ${over} signal_owned search_owned_signals`, UNPRICED),
  ...both((over) => `${RELEASE} ${over} signal_owned activate_on_platform`, FIXTURE),
  [`${SIGNED} negative-001-no-signature-header`, OTHER_TASK],
  [`${SIGNED} negative-017-key-revoked`, REVOKED],
  [`${SIGNED} negative-020-rate-abuse`, NO_CAP],
  [`${SIGNED} negative-022-multi-valued-content-type`, TWO_TYPES],
  [`${SIGNED} negative-025-jwk-alg-crv-mismatch`, NOT_SENT],
  [`${SIGNED} negative-027-webhook-registration-authentication-unsigned`, OTHER_TASK],
  [`${A2A_SDK} get_signals: failed`, DROPPED],
  [`${A2A_SDK} activate_signal: failed`, DROPPED],
  [`${A2A_SDK} get_task_status: failed`, DROPPED],
  [`${A2A_SDK} sync_accounts: failed`, DROPPED],
])
