/**
 * Requests that no route takes. A path that has a route for another method says which methods it has (RFC 9110, section 15.5.6);
 * nothing is behind any other. `OPTIONS *` is for the server as a whole, and changes nothing (section 9.3.7). Whichever it is, a
 * body is not waited for.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isForServer } from './answer/target.js'

export const NOTHING = 'Nothing is here'

type Known = { url: string; parts: readonly string[]; methods: Set<string> }

/** Whether the parts of a path are those of a route's, in which `:name` is any one. */
function isOf({ parts }: Known, given: readonly string[]): boolean {
  return parts.length === given.length && parts.every((part, at) => part[0] === ':' || part === given[at])
}

/** As the router reads it; none of a path that cannot be decoded. */
function partsOf(url: string): string[] {
  const [path = ''] = url.split(/[?#]/, 1)
  try {
    return decodeURI(path).split('/')
  } catch {
    return []
  }
}

/** Add it before the routes, and behind the hooks that look at every request. */
export function answerStrays(app: FastifyInstance) {
  const known = new Map<string, Known>()

  const knownAt = (url: string) => {
    const given = partsOf(url)
    return [...known.values()].filter((one) => isOf(one, given))
  }

  const listed = (methods: Iterable<string>) => [...new Set(methods)].sort().join(', ')
  const allMethods = () => listed([...known.values()].flatMap(({ methods }) => [...methods]))

  function answer({ url }: FastifyRequest, reply: FastifyReply) {
    if (isForServer(url)) return reply.header('allow', allMethods()).send()
    const methods = knownAt(url).flatMap((one) => [...one.methods])
    if (methods.length === 0) return reply.code(404).send({ error: NOTHING })
    const allow = listed(methods)
    return reply
      .code(405)
      .header('allow', allow)
      .send({ error: `This path is for other methods: ${allow}` })
  }

  app.addHook('onRoute', ({ url, method }) => {
    const { methods } = known.get(url) ?? { methods: new Set() }
    for (const each of [method].flat()) methods.add(each)
    known.set(url, { url, parts: url.split('/'), methods })
  })
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404) answer(request, reply)
    else done()
  })
  app.setNotFoundHandler(answer) // or no hook would see them
  return {
    /** The path of the route that a request took, or has strayed from; `*` where there is none. */
    pathOf: ({ url, routeOptions }: FastifyRequest) => routeOptions.url ?? knownAt(url)[0]?.url ?? '*',
  }
}
