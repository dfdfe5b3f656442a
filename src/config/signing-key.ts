/** The private key that webhooks are signed with, as an operator may write it. */
import { createPrivateKey, type KeyObject } from 'node:crypto'

export type SigningKeySetting = { keyId: string; privateKey: KeyObject }

/** What the configuration file holds: a JSON Web Key as text, or an id with a key in PEM. */
type SigningKeyEntry = string | { id: string; private_key: string }

function usable(key: KeyObject): boolean {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key
  return type === 'ed25519' || (type === 'ec' && details?.namedCurve === 'prime256v1')
}

function read(entry: SigningKeyEntry): SigningKeySetting | undefined {
  if (typeof entry !== 'string') {
    return { keyId: entry.id, privateKey: createPrivateKey(entry.private_key) }
  }
  const key = JSON.parse(entry) as { kid?: unknown }
  if (typeof key.kid !== 'string' || key.kid === '') return undefined
  return { keyId: key.kid, privateKey: createPrivateKey({ key, format: 'jwk' }) }
}

/** Undefined when it is no private Ed25519 or P-256 key with an id: the algorithms of the webhook profile. */
export function readSigningKey(entry: SigningKeyEntry): SigningKeySetting | undefined {
  try {
    const found = read(entry)
    return found && usable(found.privateKey) ? found : undefined
  } catch {
    return undefined // whatever is wrong with it, it is not such a key
  }
}
