/**
 * The storyboard of signed requests, against a Tributary whose one caller signs with the test keys that the protocol
 * publishes for it (test kit signed-requests-runner). The keys are public, so they are good for nothing else. The grader
 * sends each vector over MCP; over A2A it cannot.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { getComplianceCacheDir } from '@adcp/sdk/testing'
import { skipped } from './outcome.js'
import { KEYS, startTributary } from './server.js'
import { RELEASE, runStoryboards } from './storyboards.js'

const NAME = 'signed_requests'
/** Vectors for a verifier that demands or forbids a digest: this one takes either, and says so. */
const OTHER_POLICIES = ['007-missing-content-digest', '018-digest-covered-when-forbidden']

function publicKeys() {
  const file = join(getComplianceCacheDir(), 'test-vectors/request-signing/keys.json')
  const { keys } = JSON.parse(readFileSync(file, 'utf8'))
  return { keys: keys.map(({ _private_d_for_test_only: _, $comment: __, ...key }) => key) }
}

async function serveKeys() {
  const body = JSON.stringify(publicKeys())
  const server = createServer((_, reply) => reply.setHeader('content-type', 'application/json').end(body))
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${server.address().port}/jwks.json`, close: () => server.close() }
}

export async function runSignedRequests() {
  const keys = await serveKeys()
  const caller = {
    id: 'signer',
    token_sha256: createHash('sha256').update(KEYS.mcp).digest('hex'),
    role: 'buyer',
    signing: { jwks_url: keys.url, required: true, revoked: ['test-revoked-2026'] },
  }
  const tributary = await startTributary({
    sandbox: true,
    callers: { anonymous: 'deny', keys: [caller] },
    egress: { allow_networks: ['127.0.0.0/8'] },
  })
  try {
    const options = {
      contracts: ['signed_requests_runner'],
      request_signing: { transport: 'mcp', allowLiveSideEffects: true, skipVectors: OTHER_POLICIES },
    }
    const rows = await runStoryboards(tributary.url, 'mcp', KEYS.mcp, { only: NAME, options })
    const why = 'the grader sends its vectors over MCP or to an address for each operation, not over A2A'
    const over = { part: 'storyboards', release: RELEASE, transport: 'a2a', name: NAME }
    return [...rows, { ...over, steps: [skipped('all of it', why)] }]
  } finally {
    await tributary.close()
    keys.close()
  }
}
