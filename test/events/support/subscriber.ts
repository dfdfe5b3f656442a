/**
 * A subscriber to feed events on loopback: it proves that it wants them, holds what comes against the protocol's schemas,
 * verifies signatures from the RFC by itself, and remembers everything. Free of tap: processes that are killed use it too.
 */
import { createHash, createHmac, createPublicKey, type JsonWebKey, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import { adcpSchema, SCHEMAS_ABSENT } from '../../support/adcp-schema.js'

const SCHEMAS = '../shared/adcp/schemas'
const CREDENTIALS = 'a-shared-secret-of-thirty-two-characters'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every kind are read
export type Body = Record<string, any>
export type Got = { headers: IncomingHttpHeaders; body: Body; raw: string; at: number }

let webhookSchema: ValidateFunction | undefined
let challengeSchema: ValidateFunction | undefined

/** The one schema that 3.1.19 does not carry is the same in 3.2. */
function challengeValidator(): ValidateFunction {
  const ajv = new Ajv({ strict: false, allErrors: true })
  ajvFormats.default(ajv)
  const read = (name: string) => JSON.parse(readFileSync(`${SCHEMAS}/3.2.0-beta.5/${name}`, 'utf8')) as object
  ajv.addSchema(read('enums/notification-type.json'))
  return ajv.compile(read('core/webhook-challenge.json'))
}

/** What breaks the protocol's schema; undefined when nothing does, or the schemas are not there. */
export function schemaFault(body: Body): string | undefined {
  if (SCHEMAS_ABSENT) return undefined
  challengeSchema ??= challengeValidator()
  webhookSchema ??= adcpSchema('core/wholesale-feed-webhook.json')
  const validate = body.type === 'webhook.challenge' ? challengeSchema : webhookSchema
  return validate(body) ? undefined : JSON.stringify(validate.errors?.slice(0, 3))
}

/** RFC 9421, section 3.2, and RFC 9530, for the components that the webhook profile covers. */
export function signatureFault(
  url: string,
  headers: IncomingHttpHeaders,
  raw: string,
  keys: readonly JsonWebKey[],
) {
  const input = String(headers['signature-input'])
  const [, params = ''] = /^sig1=(.+)$/.exec(input) ?? []
  const param = (name: string) => new RegExp(`;${name}="?([^";]+)"?`).exec(params)?.[1]
  const digest = `sha-256=:${createHash('sha256').update(raw).digest('base64')}:`
  if (headers['content-digest'] !== digest) return 'digest'
  if (param('tag') !== 'adcp/webhook-signing/v1') return 'tag'
  const now = Date.now() / 1_000
  if (Number(param('created')) > now + 60 || Number(param('expires')) < now - 60) return 'window'
  const target = new URL(url)
  const values: Record<string, string> = {
    '@method': 'POST',
    '@target-uri': target.href,
    '@authority': target.host,
    'content-type': String(headers['content-type']),
    'content-digest': digest,
  }
  const [, list = ''] = /^\(([^)]*)\)/.exec(params) ?? []
  const components = [...list.matchAll(/"([^"]+)"/g)].map(([, name]) => name as string)
  if (Object.keys(values).some((name) => !components.includes(name))) return 'components'
  const lines = [...components.map((name) => `"${name}": ${values[name]}`), `"@signature-params": ${params}`]
  const jwk = keys.find((one) => (one as { kid?: string }).kid === param('keyid'))
  if (!jwk) return 'key'
  const [, signature = ''] = /^sig1=:([A-Za-z0-9_-]+):$/.exec(String(headers.signature)) ?? []
  const key = createPublicKey({ key: jwk, format: 'jwk' })
  const holds = verify(null, Buffer.from(lines.join('\n')), key, Buffer.from(signature, 'base64url'))
  return holds ? undefined : 'signature'
}

/** Legacy HMAC, as receivers check it. */
export function hmacFault(
  { headers, raw }: Pick<Got, 'headers' | 'raw'>,
  secret = CREDENTIALS,
): string | undefined {
  const at = String(headers['x-adcp-timestamp'])
  const wanted = `sha256=${createHmac('sha256', secret).update(`${at}.${raw}`).digest('hex')}`
  return headers['x-adcp-signature'] === wanted ? undefined : 'hmac'
}

type Answer = (got: Got, response: ServerResponse) => void

export type SubscriberOptions = {
  /** Our public keys; signatures are verified once they are given. */
  keys?: () => readonly JsonWebKey[]
  /** An event that comes again under its key is taken and not remembered, as a busy machine may answer too late. */
  remembersOnce?: boolean
  /** What it does with an event. Default: 200. */
  answer?: Answer
  /** What it does with a challenge. Default: gives it back. */
  prove?: Answer
}

export async function startSubscriber(options: SubscriberOptions = {}) {
  let { answer = (_: Got, response: ServerResponse) => void response.writeHead(200).end() } = options
  let {
    prove = ({ body }: Got, response: ServerResponse) =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ challenge: body.challenge })),
  } = options
  const events: Got[] = []
  const challenges: Got[] = []
  const faults: string[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString()
      const got: Got = { headers: request.headers, body: JSON.parse(raw) as Body, raw, at: Date.now() }
      const isChallenge = got.body.type === 'webhook.challenge'
      const schema = schemaFault(got.body)
      if (schema) faults.push(`schema: ${schema} ${raw.slice(0, 500)}`)
      const keys = options.keys?.()
      const isLegacy = !isChallenge && request.headers['signature-input'] === undefined
      const fault =
        keys && !isLegacy && signatureFault(url + (request.url ?? '').slice(1), request.headers, raw, keys)
      if (fault) faults.push(`signature: ${fault}`)
      const isAgain = events.some(({ body }) => body.idempotency_key === got.body.idempotency_key)
      if (isChallenge) challenges.push(got)
      else if (!options.remembersOnce || !isAgain) events.push(got)
      ;(isChallenge ? prove : answer)(got, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    url,
    events,
    challenges,
    faults,
    answerWith(next: Answer) {
      answer = next
    },
    proveWith(next: Answer) {
      prove = next
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export type Subscriber = Awaited<ReturnType<typeof startSubscriber>>

export const EVERY_EVENT = [
  'signal.created',
  'signal.updated',
  'signal.priced',
  'signal.removed',
  'wholesale_feed.bulk_change',
]

/** A notification config for it. */
export const configFor = (url: string, more: object = {}) => ({
  ...{ subscriber_id: 'mirror', url, event_types: EVERY_EVENT },
  ...more,
})

export const HMAC = { schemes: ['HMAC-SHA256'], credentials: CREDENTIALS }
