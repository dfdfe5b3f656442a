/**
 * The console: one page for whoever runs Tributary or buys from it, and the JSON that the page reads (docs/console.md).
 * Everything it shows is what the caller whose key is given may see.
 */
import type { FastifyInstance } from 'fastify'
import type { Rates } from '../feed/rates.js'
import type { Clock } from '../net/clock.js'
import type { Searchable } from '../search/search-host.js'
import type { Admission } from '../server/door/admission.js'
import type { Door } from '../server/door/door.js'
import { type ActionRoutesOptions, addActionRoutes } from './action-routes.js'
import { type Asset, addAssets } from './assets.js'
import { createEntrance, type Entrance, type EntranceOptions } from './entrance.js'
import { addFeedRoutes } from './feed-routes.js'
import { createFind } from './find.js'
import { addLive } from './live.js'
import { addOpenApi } from './openapi.js'
import { createSessions } from './session.js'
import { addSignIn } from './sign-in.js'
import { addSignalRoute, type SignalRouteOptions } from './signal-route.js'

type ConsoleOptions = Omit<SignalRouteOptions & ActionRoutesOptions, 'entrance'> & {
  assets: ReadonlyMap<string, Asset>
  version: string
  /** Shared by all replicas, and kept over restarts. */
  secret: Uint8Array
  /** The public snapshot; undefined before the first. */
  current(): { id: string } | undefined
  admission: Admission
  searchable(): Searchable | undefined
  rates(): Rates | undefined
  /** What operators look at: each is served under its name. A view that gives undefined is answered with 404. */
  views: Readonly<Record<string, (params: URLSearchParams) => unknown>>
  /** A text that changes when something that the views show changes. */
  pulse(): string
  /** Called once for each question about the feed, with its outcome. */
  onAsked: EntranceOptions['onAsked']
  clock: Clock
}

function addViews(app: FastifyInstance, entrance: Entrance, views: ConsoleOptions['views']): void {
  for (const [name, view] of Object.entries(views)) {
    app.get(
      `/console/api/${name}`,
      entrance.forOperators(async (_visitor, request, reply) => {
        const shown = await view(new URL(request.url, 'http://localhost').searchParams)
        return shown ?? reply.code(404).send({ error: 'There is nothing of what was asked' })
      }),
    )
  }
}

/** The console of one server. `addTo` adds its routes; call it before the app listens. */
export function createConsole(options: ConsoleOptions) {
  const { assets, version, secret, admission, clock } = options
  const { now } = clock
  const find = createFind(options)

  return {
    addTo(app: FastifyInstance, { door, publicUrl }: { door: Door; publicUrl: string }): void {
      const isSecure = publicUrl.startsWith('https:')
      const sessions = createSessions({ secret, callers: admission, isSecure, now })
      const entrance = createEntrance({ door, sessions, admission, onAsked: options.onAsked, now })
      addAssets(app, assets)
      addOpenApi(app, version, publicUrl)
      addSignIn(app, {
        entrance,
        sessions,
        identify: admission.identify,
        addressOf: door.addressOf,
        version,
        now,
      })
      addFeedRoutes(app, { ...options, entrance, find })
      addSignalRoute(app, { ...options, entrance })
      addActionRoutes(app, { ...options, entrance })
      addViews(app, entrance, options.views)
      addLive(app, {
        ...{ entrance, clock, operations: options.pulse },
        feed: () => options.current()?.id,
      })
    },
  }
}
