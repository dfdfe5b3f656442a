/**
 * What a caller may ask of us when its task ends (schema core/push-notification-config). A configuration that cannot be
 * honoured is refused when it is sent, never accepted in silence (specification, `push_notification_config`).
 */
import type { AdcpError } from '../adcp/error.js'
import { isRecord } from '../adcp/json.js'
import { type Static, Type } from '../adcp/type.js'
import { compileCheck, invalidRequest, type Violation } from '../adcp/validation.js'
import type { SendFailure } from '../net/send.js'

export const PushConfig = Type.Object({
  url: Type.String({ format: 'uri', maxLength: 2_048 }),
  operation_id: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_.:-]{1,255}$' })),
  token: Type.Optional(Type.String({ minLength: 16, maxLength: 4_096 })),
  authentication: Type.Optional(
    Type.Object(
      {
        schemes: Type.Array(Type.Union([Type.Literal('Bearer'), Type.Literal('HMAC-SHA256')]), {
          minItems: 1,
          maxItems: 1,
        }),
        credentials: Type.String({ minLength: 32, maxLength: 4_096 }),
      },
      { additionalProperties: false },
    ),
  ),
})
export type PushConfig = Static<typeof PushConfig>

const FIELD = 'push_notification_config'
const check = compileCheck(PushConfig)

/** Under the member of the request that it stands in. */
function refused(violations: readonly Violation[]): { refused: AdcpError } {
  return {
    refused: invalidRequest(violations.map((one) => ({ ...one, pointer: `/${FIELD}${one.pointer}` }))),
  }
}

const NO_KEY: Violation = {
  pointer: '/authentication',
  message: 'is needed: this agent has no webhook signing key',
  keyword: 'not',
  suggestion: 'Send authentication with the scheme HMAC-SHA256 or Bearer.',
}

export type PushRules = {
  /** Whether we have a key to sign with: what a configuration without `authentication` asks for. */
  signs: boolean
  /** Why the egress guard would not let a request go there; undefined when it would. */
  unreachable(url: string): Promise<SendFailure | undefined>
}

/** What is wrong with a url or credentials that have the right form, all of it at once. */
async function objections(
  { url: target, authentication }: Partial<PushConfig>,
  rules: PushRules,
): Promise<Violation[]> {
  const found: Violation[] = []
  const object = (pointer: string, message: string, suggestion: string) =>
    found.push({ pointer, message, keyword: 'not', suggestion })
  if (target !== undefined) {
    const url = new URL(target)
    if (url.username !== '' || url.password !== '' || url.hash !== '') {
      const suggestion = 'Send the url without them; use authentication.'
      object('/url', 'must have neither credentials nor a fragment', suggestion)
    }
    if ((await rules.unreachable(target)) !== undefined) {
      object('/url', 'cannot be reached from here', 'Give a public https url.')
    }
  }
  if (authentication?.schemes[0] === 'Bearer' && /[^\x21-\x7e]/.test(authentication.credentials)) {
    object('/authentication/credentials', 'cannot stand in a header', 'Send printable ASCII without spaces.')
  }
  return found
}

/** The members that have the right form: what else is wrong with them is told together with what has not. */
function sound(value: unknown, issues: readonly Violation[]): Partial<PushConfig> {
  const members = Object.entries(isRecord(value) ? value : {})
  const isBad = (name: string) => issues.some(({ pointer }) => pointer.split('/')[1] === name)
  return Object.fromEntries(members.filter(([name]) => !isBad(name)))
}

/** The configuration as it will be honoured, or everything that is wrong with it. */
export async function readPushConfig(
  value: unknown,
  rules: PushRules,
): Promise<PushConfig | { refused: AdcpError }> {
  const checked = check(value)
  const issues = checked.ok ? [] : checked.issues
  const unsigned: Violation[] =
    isRecord(value) && value.authentication === undefined && !rules.signs ? [NO_KEY] : []
  const found = [...issues, ...(await objections(sound(value, issues), rules)), ...unsigned]
  return checked.ok && found.length === 0 ? checked.value : refused(found)
}
