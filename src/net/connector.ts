/**
 * Makes the sockets of the one way out: guarded ones, to addresses that the policy permits (net/addresses.ts), and plain ones, to
 * origins that the operator named. Certificates are always verified, whatever the environment says, because authorization rests on
 * what providers publish over https.
 */
import { createRequire } from 'node:module'
import type { LookupFunction, Socket } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { buildConnector } from 'undici'
import { type AddressPolicy, guardedLookup, literalRefusal, type Resolve } from './addresses.js'
import type { Reads } from './body.js'
import type { Connector } from './connections.js'

const require = createRequire(import.meta.url)

// The part of undici that connects.
const connectorOf = require('undici/lib/core/connect.js') as typeof buildConnector

const CONNECT_TIMEOUT_MS = 10_000 // a host that does not answer a SYN this long is down

let context: SecureContext | undefined

/** Whom connections trust, made once: Node would make it for each of them, which takes a millisecond. */
function trusted(): SecureContext {
  context ??= createSecureContext()
  return context
}

/**
 * Makes sockets for connections. `signal` closes them, also those that are still connecting, and none is made after it. It is
 * not given to the sockets: Node adds a listener for each and never removes it, so that all there ever were would be kept.
 * undici passes all other options to Node.
 */
export function createConnector(options: {
  lookup?: LookupFunction
  signal: AbortSignal
  /** How they are read. */
  onread: Reads
}): Connector {
  const { signal, ...ways } = options
  const socket = { timeout: CONNECT_TIMEOUT_MS, rejectUnauthorized: true, ...ways }
  const connectorWith = (more: object) => connectorOf({ ...socket, ...more } as buildConnector.BuildOptions)
  const plain = connectorWith({})
  let secure: buildConnector.connector | undefined
  const sockets = new Set<Socket>()
  const closed = () => new Error('everything was closed')
  signal.addEventListener('abort', () => {
    for (const one of sockets) one.destroy(closed())
  })
  return (target, callback) => {
    if (signal.aborted) {
      callback(closed(), null)
      return undefined
    }
    let connect = plain
    if (target.protocol === 'https:') {
      secure ??= connectorWith({ secureContext: trusted() })
      connect = secure
    }
    const made = connect(target, callback) as unknown as Socket // undici gives it back, which its types do not say
    sockets.add(made)
    made.once('close', () => sockets.delete(made))
    return made
  }
}

/** A connector that reaches what the policy permits. Literal addresses are checked first: sockets never look them up. */
export function createGuardedConnector(
  policy: AddressPolicy,
  resolve: Resolve,
  given: { signal: AbortSignal; onread: Reads },
): Connector {
  const connectorFor = (scheme: 'http:' | 'https:') =>
    createConnector({ lookup: guardedLookup(policy, resolve, scheme), ...given })
  const connectors = { 'http:': connectorFor('http:'), 'https:': connectorFor('https:') }
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    const refused = literalRefusal(policy, options.hostname, scheme)
    if (!refused) return connectors[scheme](options, callback)
    callback(refused, null)
    return undefined
  }
}
