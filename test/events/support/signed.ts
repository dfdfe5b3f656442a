import { generateKeyPairSync } from 'node:crypto'

export const BRAND_JSON = 'https://operator.example/.well-known/brand.json'
const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid: 'events-key' }

/** `events` of a configuration that tells feed events. */
export const SIGNED = { brand_json_url: BRAND_JSON, signing_key: JSON.stringify(jwk) }
