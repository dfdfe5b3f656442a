/**
 * Steps that fail and may, one by one, each with the reason. An exception that passes, or that names no step, fails the
 * run: this list cannot outlive its reasons.
 */
import { RELEASE } from './storyboards.js'

const PROBE = 'the runner’s raw probe speaks MCP to the A2A endpoint; over MCP the step passes'
const UNPRICED =
  'the SDK names no release (adcp_major_version alone) and is answered by 3.1; it validates the answer by 3.0.6, in which every signal has a price'
const FIXTURE =
  'the step sends the segment id of its author’s own agent; the variant of the storyboard with our ids is below'
const DROPPED =
  'of an A2A task in state `failed` the SDK unwraps nothing: its `data` is the whole JSON-RPC answer, where the step finds no error; over MCP it reads the error'
const NO_CODE =
  'the answer is a task in state `failed` whose data part has `adcp_error`, as the protocol’s A2A page wants it. @adcp/sdk 6 (utils/response-unwrapper.js) unwraps artifacts in state `completed` alone: it gives `status: "failed"`, `error: "Task failed"`, no `adcpError`, and the whole JSON-RPC answer as `data`, so the code stands in `data.result.artifacts[0].parts[0].data.adcp_error`; over MCP it reads the code'
const OTHER_TASK =
  'the vector calls create_media_buy, which is no task of this agent: it is refused as unknown, not for its missing signature'
const NO_CAP =
  'the kit expects a cap of 100 nonces a key; here it is 100,000, and the caller’s rate limit comes first'
const TWO_TYPES =
  'a request with two content types is refused as such (415) before its signature is looked at'
const OTHER_RELEASE =
  'the SDK names no release (adcp_major_version alone) and is answered by 3.1; it validates the answer by 3.0.6, which has no name for three of the scenarios'
const NO_ACCOUNT =
  'the step names no account: since 3.1 nothing may be forced without one, so the answer is FORBIDDEN before anything else is looked at'
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
  [`${SIGNED} negative-020-rate-abuse`, NO_CAP],
  [`${SIGNED} negative-022-multi-valued-content-type`, TWO_TYPES],
  [`${SIGNED} negative-025-jwk-alg-crv-mismatch`, NOT_SENT],
  [`${SIGNED} negative-027-webhook-registration-authentication-unsigned`, OTHER_TASK],
  ...both((over) => `${RELEASE} ${over} deterministic_testing get_capabilities`, OTHER_RELEASE),
  [`${RELEASE} mcp deterministic_testing unknown_scenario`, NO_ACCOUNT],
  [`${RELEASE} mcp deterministic_testing missing_params`, NO_ACCOUNT],
  [`${RELEASE} mcp deterministic_testing not_found_entity`, NO_ACCOUNT],
  [`${RELEASE} a2a deterministic_testing unknown_scenario`, DROPPED],
  [`${RELEASE} a2a deterministic_testing missing_params`, DROPPED],
  [`${RELEASE} a2a deterministic_testing not_found_entity`, DROPPED],
  [`${A2A_SDK} get_signals: failed, its code`, NO_CODE],
  [`${A2A_SDK} activate_signal: failed, its code`, NO_CODE],
  [`${A2A_SDK} get_task_status: refused, its code`, NO_CODE],
  [`${A2A_SDK} sync_accounts: failed, its code`, NO_CODE],
])
