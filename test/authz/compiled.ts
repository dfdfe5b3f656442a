/** A document, given as a value, in the form that verdicts are asked of. */
import { inspect } from '../../src/authz/provider/inspector.js'
import { type CompiledProvider, compileProvider, type ProviderState } from '../../src/authz/rules/verdict.js'

export const NOW = Date.parse('2026-03-01T00:00:00Z')
export const EXPIRES = Date.parse('2026-03-08T00:00:00Z')

export function bytesOf(document: unknown): Uint8Array {
  return new TextEncoder().encode(typeof document === 'string' ? document : JSON.stringify(document))
}

export function stateWith(document: unknown): ProviderState {
  const bytes = bytesOf(document)
  const inspection = inspect(bytes)
  if (inspection.kind !== 'document') throw new Error('the test document cannot be read')
  const { digest, tables } = inspection
  const url = 'https://p.example/.well-known/adagents.json'
  return {
    domain: 'p.example',
    document: { url, etag: '"v1"', fetchedAt: NOW, digest, bytes, tables },
    confirmedAt: NOW,
    expiresAt: EXPIRES,
  }
}

export function compiled(document: unknown): CompiledProvider {
  return compileProvider(stateWith(document))
}
