/** A Tributary over the demo world with an operator and two buyers, for tests of what the console shows to whom. */
import { hash } from 'node:crypto'
import { startWorld, type World } from '../../support/federation.js'

export const OPERATOR = 'operator-key-of-the-tests'
export const BUYER = 'buyer-key-of-the-tests'
export const OTHER = 'other-key-of-the-tests'

export const digest = (key: string) => hash('sha256', key, 'hex')

export const KEYS = [
  { id: 'op', token_sha256: digest(OPERATOR), role: 'operator' },
  {
    id: 'buyer',
    token_sha256: digest(BUYER),
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  },
  { id: 'other', token_sha256: digest(OTHER) },
]

export function startConsoleWorld(keys: readonly object[] = KEYS): Promise<World> {
  return startWorld({ signals: 96, config: () => ({ callers: { anonymous: 'metadata', keys } }) })
}

export type Json = Record<string, unknown>

/** The console's JSON as a script reads it. */
export async function read(base: string, path: string, key?: string, init: RequestInit = {}) {
  const headers = {
    ...(key && { authorization: `Bearer ${key}` }),
    ...(init.headers as Record<string, string>),
  }
  const reply = await fetch(`${base}/console/api/${path}`, { ...init, headers })
  const text = await reply.text()
  return {
    status: reply.status,
    headers: reply.headers,
    text,
    body: (text === '' ? undefined : JSON.parse(text)) as Json,
  }
}

/** What does an operator's actions on a server. */
export const actingOn =
  (base: string) =>
  (action: string, subject: string, key = OPERATOR) =>
    read(base, 'actions', key, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ action, subject }),
    })
