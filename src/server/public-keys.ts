/** Our public keys, for whoever verifies our signatures. */
import type { FastifyInstance } from 'fastify'
import { publicJwk, type SigningKey } from '../signing/sign.js'

const MAX_AGE = 'public, max-age=300'
const KEYS_PATH = '/.well-known/jwks.json'
const BRAND_PATH = '/.well-known/brand.json'

type IdentityOptions = { publicUrl: string; key: SigningKey }

/** One entry per url: receivers compare it byte for byte, and two entries with one url would be ambiguous. */
function brandOf(publicUrl: string) {
  const jwks_uri = new URL(KEYS_PATH, publicUrl).href
  const agent = (transport: string) => ({
    ...{ type: 'signals', id: `tributary_${transport}`, url: `${publicUrl}/${transport}`, jwks_uri },
  })
  return { version: '1.0', agents: [agent('mcp'), agent('a2a')] }
}

/**
 * Where receivers of our signatures find our keys: the operator's brand.json names this agent's urls and its key set
 * (docs/protocol.md#signatures). Both are public, and are served only when there is a key to sign with.
 */
export function addIdentity(app: FastifyInstance, { publicUrl, key }: IdentityOptions): void {
  const documents = {
    [BRAND_PATH]: JSON.stringify(brandOf(publicUrl)),
    [KEYS_PATH]: JSON.stringify({ keys: [publicJwk(key)] }),
  }
  for (const [path, document] of Object.entries(documents)) {
    app.get(path, (_request, reply) =>
      reply.header('cache-control', MAX_AGE).type('application/json').send(document),
    )
  }
}
