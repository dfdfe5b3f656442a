import { createPrivateKey, createPublicKey, verify as verifyBytes } from 'node:crypto'
import { test } from 'tap'
import { algorithmOf, type SigningKey } from '../../src/signing/key.js'
import {
  createSigner,
  REQUESTS,
  readSignatureInput,
  signatureBase,
  targetOf,
  WEBHOOKS,
} from '../../src/signing/signature.js'
import { createReplayGuard, createVerifier, type Verification } from '../../src/signing/verify.js'
import type { Received } from '../discovery/support/receiver.js'
import { verifySignature } from '../discovery/support/verify-signature.js'
import { canonicalCases, keysOf, privateKeys, SKIP, type Vector, vectorsOf } from './vectors.js'

const PROFILES = { 'request-signing': REQUESTS, 'webhook-signing': WEBHOOKS } as const
const CAP = 3
const NONCE = 'KXYnfEfJ0PBRZXQyVXfVQA'

/** The target as it was published in the base that was signed. */
const expectedUri = ({ expected_signature_base: base = '' }: Vector) => /"@target-uri": (.*)/.exec(base)?.[1]

const messageOf = ({ request: { method, url, headers, body = '' } }: Vector) => ({
  method,
  url,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
  body: Buffer.from(body),
})

function verify(profile: keyof typeof PROFILES, vector: Vector): Promise<Verification> {
  const now = () => vector.reference_now * 1_000
  const state = vector.test_harness_state ?? {}
  const replay = createReplayGuard({ now, mostPerKey: CAP })
  for (const { keyid, nonce } of state.replay_cache_entries ?? []) {
    replay.take({ owner: 'them', keyid }, nonce, vector.reference_now + 360)
  }
  const full = state.replay_cache_per_keyid_cap_hit?.keyid ?? state.per_keyid_cap_filled_for
  for (let nonce = 0; full && nonce < CAP; nonce += 1) {
    replay.take({ owner: 'them', keyid: full }, `${nonce}`, vector.reference_now + 360)
  }
  const revoked = state.revocation_list?.revoked_kids ?? state.revoked_kids ?? []
  const keys = keysOf(profile, vector)
  const digest = vector.verifier_capability?.covers_content_digest
  return createVerifier({
    profile: PROFILES[profile],
    keyOf(keyid) {
      const jwk = keys.find(({ kid }) => kid === keyid)
      return jwk ? { owner: 'them', jwk } : 'unknown'
    },
    replay,
    now,
    ...(digest && { digest }),
    revocation: {
      isStale: () => state.revocation_list_stale_seconds !== undefined,
      isRevoked: (keyid) => revoked.includes(keyid),
    },
  })(messageOf(vector))
}

for (const profile of ['request-signing', 'webhook-signing'] as const) {
  test(`every published ${profile} signature that stands is verified`, { skip: SKIP }, async (t) => {
    for (const vector of vectorsOf(profile, 'positive')) {
      t.match(await verify(profile, vector), { kind: 'verified', owner: 'them' }, vector.file)
      const input = readSignatureInput(vector.request.headers['Signature-Input'] as string)
      const target = targetOf(vector.request.url)
      const base = input && target && signatureBase(input.components, input.raw, messageOf(vector), target)
      if (vector.expected_signature_base) t.equal(base, vector.expected_signature_base, vector.file)
    }
  })

  test(`every published ${profile} signature that does not stand is refused by its code`, {
    skip: SKIP,
  }, async (t) => {
    for (const vector of vectorsOf(profile, 'negative')) {
      const verified = await verify(profile, vector)
      const { error_code: code } = vector.expected_outcome
      // Without any signature it is the server's rules that ask for one (test/server/signed-requests.test.ts).
      if (code === 'request_signature_required') t.same(verified, { kind: 'unsigned' }, vector.file)
      else t.same(verified, { kind: 'rejected', code }, vector.file)
    }
  })
}

test('urls are signed in the published spelling, and malformed ones not at all', {
  skip: SKIP,
}, async (t) => {
  const cases = canonicalCases()
  t.equal(cases.length, 31)
  for (const { input_url: url, expected_target_uri: uri, expected_authority: authority, reject } of cases) {
    t.same(targetOf(url), reject ? undefined : { uri, authority }, url)
  }
})

/** The published private key of a vector's signature; undefined where it names a key that nobody has. */
function signingKeyOf(profile: keyof typeof PROFILES, vector: Vector): SigningKey | undefined {
  const [, keyId] = /keyid="([^"]+)"/.exec(vector.request.headers['Signature-Input'] ?? '') ?? []
  const jwk = privateKeys(profile).find(({ kid }) => kid === keyId)
  return jwk && { keyId: jwk.kid, privateKey: createPrivateKey({ key: jwk, format: 'jwk' }) }
}

for (const profile of ['request-signing', 'webhook-signing'] as const) {
  test(`what we sign is what was published for ${profile}, byte by byte`, { skip: SKIP }, async (t) => {
    let same = 0
    for (const vector of vectorsOf(profile, 'positive')) {
      const key = signingKeyOf(profile, vector)
      const { url, headers, body = '' } = vector.request
      // Of several signatures the profile reads sig1, which is the first.
      const [input = ''] = (headers['Signature-Input'] ?? '').split(/, *(?=[a-z0-9]+=\()/)
      const [signature = ''] = (headers.Signature ?? '').split(/, */)
      const [, nonce = ''] = /nonce="([^"]+)"/.exec(input) ?? []
      if (!key) throw new Error(`${vector.file} is signed with a key that is not published`)
      const sign = createSigner(key, PROFILES[profile])
      const signed = sign(url, body, vector.reference_now * 1_000, nonce, {
        digest: /content-digest/.test(input),
      })
      t.equal(signed['signature-input'], input, vector.file)
      t.equal(signed['content-digest'], headers['Content-Digest'], vector.file)
      if (algorithmOf(key) === 'ed25519') {
        t.equal(signed.signature, signature, vector.file)
        same += 1
      } else if (vector.expected_signature_base) {
        // ECDSA never gives the same signature twice: the published base is verified with the published key.
        const bytes = Buffer.from(signed.signature?.slice('sig1=:'.length, -1) ?? '', 'base64url')
        const publicKey = { key: createPublicKey(key.privateKey), dsaEncoding: 'ieee-p1363' as const }
        t.ok(
          verifyBytes('sha256', Buffer.from(vector.expected_signature_base), publicKey, bytes),
          vector.file,
        )
      }
    }
    t.ok(same > 0)
  })

  test(`every published ${profile} message, signed by us, is verified by other means`, {
    skip: SKIP,
  }, (t) => {
    const vectors = [...vectorsOf(profile, 'positive'), ...vectorsOf(profile, 'negative')]
    const refused: string[] = []
    let verified = 0
    for (const vector of vectors) {
      const { url, body = '' } = vector.request
      for (const { kid, ...jwk } of privateKeys(profile)) {
        const key = { keyId: kid, privateKey: createPrivateKey({ key: jwk, format: 'jwk' }) }
        const sign = () =>
          createSigner(key, PROFILES[profile])(url, body, vector.reference_now * 1_000, NONCE)
        const target = targetOf(url)
        if (!target) {
          t.throws(sign, /cannot be signed/, vector.file)
          continue
        }
        const received = { headers: sign(), body: Buffer.from(body) } as unknown as Received
        const outcome = verifySignature(received, expectedUri(vector) ?? url, createPublicKey(key.privateKey))
        const { ok, params } = outcome
        if (!ok || params?.keyid !== kid || params.tag !== PROFILES[profile].tag)
          refused.push(`${vector.file} by ${kid}`)
        verified += 1
      }
    }
    t.same(refused, [])
    t.ok(verified >= vectors.length, `${verified} signatures`)
    t.end()
  })
}
