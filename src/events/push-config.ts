/**
 * What a caller may ask of us when its task ends (schema core/push-notification-config). A configuration that cannot be
 * honoured is refused when it is sent, never accepted in silence (specification, `push_notification_config`).
 */
import { type Static, Type } from '@sinclair/typebox'
import { type AdcpError, adcpError } from '../adcp/error.js'
import { compileCheck } from '../adcp/validation.js'
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

function refused(member: string, message: string, suggestion?: string): AdcpError {
  return adcpError('INVALID_REQUEST', message, {
    field: member === '' ? FIELD : `${FIELD}.${member}`,
    ...(suggestion !== undefined && { suggestion }),
  })
}

export type PushRules = {
  /** Whether we have a key to sign with: what a configuration without `authentication` asks for. */
  signs: boolean
  /** Why the egress guard would not let a request go there; undefined when it would. */
  unreachable(url: string): Promise<SendFailure | undefined>
}

/** The configuration as it will be honoured, or why it cannot be. */
export async function readPushConfig(
  value: unknown,
  { signs, unreachable }: PushRules,
): Promise<PushConfig | { refused: AdcpError }> {
  const checked = check(value)
  if (!checked.ok) {
    const [issue] = checked.issues
    const member = issue?.pointer.slice(1).replaceAll('/', '.') ?? ''
    return { refused: refused(member, issue?.message ?? 'is not valid') }
  }
  const config = checked.value
  const url = new URL(config.url)
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    return { refused: refused('url', 'must have neither credentials nor a fragment') }
  }
  if (!config.authentication && !signs) {
    const suggestion = 'Send authentication with the scheme HMAC-SHA256 or Bearer.'
    return {
      refused: refused('authentication', 'is needed: this agent has no webhook signing key', suggestion),
    }
  }
  if (
    config.authentication?.schemes[0] === 'Bearer' &&
    /[^\x21-\x7e]/.test(config.authentication.credentials)
  ) {
    return { refused: refused('authentication.credentials', 'cannot stand in a header') }
  }
  if ((await unreachable(config.url)) !== undefined) {
    return { refused: refused('url', 'cannot be reached from here', 'Give a public https url.') }
  }
  return config
}
