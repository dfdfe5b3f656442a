/**
 * The connections of one way out: each carries one request at a time and is kept a while for the next one to its origin. Each is a
 * client of undici's by itself. Of the pools that undici has nobody learns whether a connection had answered before, and what
 * is still being made there is made to its end, although nobody waits for it. How many there are is not bounded here: who asks
 * for one has a place (net/places.ts).
 */
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { buildConnector, Dispatcher } from 'undici'

const require = createRequire(import.meta.url)

// The part of undici that speaks HTTP: the package as a whole loads fetch, sockets for browsers and doubles for tests as well.
const Client = require('undici/lib/dispatcher/client.js') as typeof import('undici').Client

const KEEP_ALIVE_MS = 30_000 // also where its server asks for longer: sockets are ours to count
const CLIENT = { keepAliveTimeout: KEEP_ALIVE_MS, keepAliveMaxTimeout: KEEP_ALIVE_MS, headersTimeout: 0 }

/** Makes a socket, and returns it while it is being made. Undefined: none is made, which the callback tells too. */
export type Connector = (...asked: Parameters<buildConnector.connector>) => Socket | undefined

export type Connection = {
  dispatch: Dispatcher['dispatch']
  /** It has brought an answer before, so its server may be closing it. */
  isKept(): boolean
  /** Its request was answered: the next one may have it. */
  keep(): void
  /** Ends it and its request, also while it is being made. */
  end(error: Error): void
}

export function createConnections(connector: Connector) {
  const kept = new Map<string, Connection[]>() // that carry nothing, by origin; the one used last is last
  const all = new Set<Dispatcher>()
  let isClosing = false

  function keep(origin: string, connection: Connection): void {
    const here = kept.get(origin)
    if (here) here.push(connection)
    else kept.set(origin, [connection])
  }

  /** Its server has closed it. Whether it was kept: one that a request waits for is made again. */
  function leave(origin: string, connection: Connection): boolean {
    const here = kept.get(origin) ?? []
    const at = here.indexOf(connection)
    if (at >= 0) here.splice(at, 1)
    if (here.length === 0) kept.delete(origin) // here alone: a request that takes the last one brings it back
    return at >= 0
  }

  function open(origin: string): Connection {
    let socket: Socket | undefined
    let isKept = false
    const client = new Client(origin, {
      ...CLIENT,
      connect(target, callback) {
        isKept = false // what was kept is closed: the client makes another
        socket = connector(target, callback)
      },
    })
    const connection: Connection = {
      dispatch: (request, handler) => client.dispatch(request, handler),
      isKept: () => isKept,
      keep() {
        isKept = true
        if (isClosing) all.delete(client)
        else keep(origin, connection)
      },
      end(error) {
        all.delete(client)
        void client.destroy(error)
        socket?.destroy(error) // a client leaves one that is being made to itself
      },
    }
    client.on('disconnect', () => {
      if (leave(origin, connection)) all.delete(client)
    })
    all.add(client)
    return connection
  }

  return {
    /** A connection to an origin, for one request, which ends with `keep` or `end`. `isNew`: none that was kept. */
    take(origin: string, isNew: boolean): Connection {
      return (isNew ? undefined : kept.get(origin)?.pop()) ?? open(origin)
    },
    /** Waits for requests under way, then closes. */
    async drain(): Promise<void> {
      isClosing = true
      kept.clear()
      await Promise.all([...all].map((client) => client.close()))
    },
    /** Aborts requests under way, then closes. */
    async destroy(): Promise<void> {
      await Promise.all([...all].map((client) => client.destroy()))
    },
  }
}

export type Connections = ReturnType<typeof createConnections>
