import { createPrivateKey, type JsonWebKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { signatureBase, targetOf } from '../../src/signing/base.js'
import { readSignatureInput } from '../../src/signing/fields.js'
import { REQUESTS, WEBHOOKS } from '../../src/signing/profile.js'
import { createReplayGuard } from '../../src/signing/replay.js'
import { createVerifier, type Verification } from '../../src/signing/verify.js'
import { canonicalCases, keysOf, SKIP, VECTORS, type Vector, vectorsOf } from './vectors.js'

const PROFILES = { 'request-signing': REQUESTS, 'webhook-signing': WEBHOOKS } as const
const CAP = 3

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

test('the published private keys make the published signatures again', { skip: SKIP }, async (t) => {
  const { sign } = await import('node:crypto')
  const { keys } = JSON.parse(
    readFileSync(join(VECTORS as string, 'webhook-signing', 'keys.json'), 'utf8'),
  ) as { keys: (JsonWebKey & { kid: string; _private_d_for_test_only: string })[] }
  const [vector] = vectorsOf('webhook-signing', 'positive') as [Vector]
  const { _private_d_for_test_only: d, ...jwk } = keys.find(
    ({ kid }) => kid === 'test-ed25519-webhook-2026',
  ) ?? {
    _private_d_for_test_only: '',
  }
  const key = createPrivateKey({ key: { ...jwk, d } as JsonWebKey, format: 'jwk' })
  const signature = sign(null, Buffer.from(vector.expected_signature_base as string), key)
  t.equal(vector.request.headers.Signature, `sig1=:${signature.toString('base64url')}:`)
})
