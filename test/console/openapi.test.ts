import { setTimeout as wait } from 'node:timers/promises'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { test } from 'tap'
import { BUYER, type Json, OPERATOR, read, startConsoleWorld } from './support/console-world.js'

const NORTHWIND = 'signals.northwind.example'

type Answer = { content?: Record<string, { schema: object }>; headers?: object }
type Operation = {
  security: object[]
  description?: string
  parameters?: { in: string; name: string; schema: { type?: string; enum?: string[] } }[]
  responses: Record<string, Answer>
}
type Document = Json & { paths: Record<string, Record<string, Operation>>; components: { schemas: object } }

type Asked = { query?: string; key?: string | undefined; body?: object; status?: number }

/** What is asked of each operation, and which of its documented answers has to come. An operation without one is a failure. */
const QUESTIONS: Readonly<Record<string, readonly Asked[]>> = {
  'get /healthz': [{}],
  'get /readyz': [{}],
  'get /metrics': [{}, { key: OPERATOR }],
  'get /openapi.json': [{}],
  'get /api/registry/agents': [
    { query: 'type=signals' },
    { query: 'verification_mode=hearsay', status: 400 },
  ],
  'get /explain': [
    { key: OPERATOR, query: 'ref=motorledger.example/nothing' },
    { key: OPERATOR, query: `ref=${NORTHWIND}` },
    { key: OPERATOR, status: 400 },
    { key: BUYER, query: 'ref=x', status: 403 },
    { query: 'ref=x', status: 401 },
  ],
  'post /refresh': [
    { key: OPERATOR, query: `upstream=${NORTHWIND}`, status: 202 },
    { key: OPERATOR, query: 'upstream=nobody', status: 404 },
    { key: BUYER, query: 'upstream=x', status: 403 },
    { query: 'upstream=x', status: 401 },
  ],
  'get /console/api/session': [{}, { key: BUYER }],
  'post /console/api/session': [
    { body: { key: BUYER } },
    { body: { key: 'wrong' }, status: 401 },
    { body: {}, status: 400 },
  ],
  'delete /console/api/session': [{ key: BUYER, status: 204 }, { status: 401 }],
  'get /console/api/signals': [
    { key: BUYER, query: 'q=auto&country=DE&limit=3' },
    { key: OPERATOR, query: 'max_cpm=x', status: 400 },
    { status: 401 },
  ],
  'get /console/api/facets': [{ key: BUYER }, { key: BUYER, query: 'type=x', status: 400 }, { status: 401 }],
  'get /console/api/signal': [
    { key: OPERATOR, query: 'id=nothing' },
    { key: BUYER, query: 'id=nothing', status: 404 },
  ],
  'get /console/api/live': [{ status: 401 }, { key: BUYER }],
  'get /console/api/overview': [{ key: OPERATOR }, { key: BUYER, status: 403 }, { status: 401 }],
  'get /console/api/upstreams': [{ key: OPERATOR }, { key: BUYER, status: 403 }, { status: 401 }],
  'get /console/api/providers': [
    { key: OPERATOR, query: 'q=ledger' },
    { key: BUYER, status: 403 },
  ],
  'get /console/api/activity': [{ key: OPERATOR }, { key: BUYER, status: 403 }],
  'get /console/api/callers': [{ key: OPERATOR }, { key: BUYER, status: 403 }],
  'get /console/api/jobs': [{ key: OPERATOR }, { key: BUYER, status: 403 }, { status: 401 }],
  'get /console/api/history': [
    { key: OPERATOR, query: `upstream=${NORTHWIND}&span=days` },
    { key: OPERATOR, query: 'upstream=nobody', status: 404 },
    { key: BUYER, status: 403 },
  ],
  'post /console/api/actions': [
    { key: OPERATOR, body: { action: 'exclude-upstream', subject: 'https://nobody.example/' }, status: 404 },
    { key: OPERATOR, body: { action: 'suspend-caller', subject: 'op' }, status: 409 },
    { key: OPERATOR, body: { action: 'suspend-caller', subject: 'other' } },
    { key: OPERATOR, body: { action: 'x' }, status: 400 },
    { key: BUYER, body: {}, status: 403 },
  ],
  'get /console/api/audit': [{ key: OPERATOR }, { key: BUYER, status: 403 }],
}

/** The schemas, without leave for members that they do not name: what is answered is described. Rows are get_signals'. */
function closed(components: Document['components']): object {
  return JSON.parse(
    JSON.stringify(components, (_, value: Json) =>
      value?.properties && value.additionalProperties === undefined
        ? { ...value, additionalProperties: false }
        : value,
    ),
  ) as object
}

/** `get /path` of every route, from the tree that Fastify prints: a branch continues the path of the one it hangs on. */
function routesOf(tree: string): string[] {
  const branches: string[] = []
  return tree.split('\n').flatMap((line) => {
    const [, indent = '', part = '', methods] = /^(.*?)[├└]── (\S+)(?: \((.*)\))?/.exec(line) ?? []
    branches.length = indent.length / 4
    branches.push(part)
    return methods ? methods.split(', ').map((method) => `${method.toLowerCase()} ${branches.join('')}`) : []
  })
}

test('everything that is REST is documented, and answers as documented, with no other members', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { url, app } = world.federation
  const points = async () => (await read(url, `history?upstream=${NORTHWIND}`, OPERATOR)).status
  for (const end = Date.now() + 60_000; Date.now() < end && (await points()) !== 200; ) await wait(20)
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document

  await t.test('the document is OpenAPI 3.1', async (t) => {
    const { valid, errors } = await new Validator().validate(
      structuredClone(document) as Record<string, unknown>,
    )
    t.ok(valid, JSON.stringify(errors ?? '').slice(0, 1_000))
    t.equal(document.openapi, '3.1.0')
  })

  await t.test('every route of the server is in it, and every path of it is a route', (t) => {
    const PROTOCOL = /^\/(mcp|a2a|\.well-known|$|\*)|^\/console\/(?!api\/)/
    const served = routesOf(app.printRoutes({ commonPrefix: false })).filter((route) => {
      const [method, path = ''] = route.split(' ')
      return method !== 'head' && !PROTOCOL.test(path)
    })
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    )
    t.same(documented.sort(), served.sort())
    t.same(Object.keys(QUESTIONS).sort(), documented.sort(), 'and each is asked here')
    t.end()
  })

  await t.test('whatever has GET has HEAD, which ends', async (t) => {
    const headers = { authorization: `Bearer ${OPERATOR}` }
    for (const [path, methods] of Object.entries(document.paths)) {
      if (!methods.get) continue
      const { status } = await fetch(url + path, { method: 'HEAD', headers })
      t.ok([200, 400, 404].includes(status), `${path}: ${status}`)
    }
  })

  await t.test(
    'what is for callers with a key takes the parameters that it documents, and no other',
    async (t) => {
      const headers = { authorization: `Bearer ${OPERATOR}` }
      for (const [path, methods] of Object.entries(document.paths)) {
        for (const [method, { security, parameters = [] }] of Object.entries(methods)) {
          if (Object.keys(security[0] ?? {}).length === 0) continue // monitors and caches add some of their own
          const query = [...parameters.map(({ name }) => `${name}=`), 'contry=DE'].join('&')
          const reply = await fetch(`${url}${path}?${query}`, { method: method.toUpperCase(), headers })
          const meant = parameters.some(({ name }) => name === 'country')
            ? 'Did you mean "country"?'
            : 'It has '
          const answer = (await reply.json()) as Json
          t.match([reply.status, answer], [400, { parameter: 'contry' }], `${method} ${path}`)
          t.ok(String(answer.error).includes(`no such parameter. ${meant}`), String(answer.error))
        }
      }
    },
  )

  await t.test('a parameter that is read once is refused where it is given again', async (t) => {
    const headers = { authorization: `Bearer ${OPERATOR}` }
    const ask = async (method: string, path: string, query: string) => {
      const reply = await fetch(`${url}${path}?${query}`, { method: method.toUpperCase(), headers })
      return [reply.status, (await reply.json()) as Json] as const
    }
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { security, parameters = [] }] of Object.entries(methods)) {
        if (Object.keys(security[0] ?? {}).length === 0) continue
        for (const { name, schema } of parameters) {
          const twice = await ask(method, path, `${name}=&${name}=&contry=`)
          const parameter = schema.type === 'array' ? 'contry' : name
          t.match(twice, [400, { parameter }], `${method} ${path} ${name}`)
          if (parameter === name) t.match(twice[1].error, /more than once/)
          if (schema.enum) {
            const wrong = await ask(method, path, `${name}=wrong`)
            const error = `Invalid ${name}: expected one of ${schema.enum.join(', ')}`
            t.match(wrong, [400, { parameter: name, error }], `${path} ${name}=wrong`)
          }
        }
      }
    }
  })

  const ajv = new Ajv2020({ strict: false })
  formats.default(ajv)
  ajv.addSchema({ $id: 'document', components: closed(document.components) })

  for (const [name, questions] of Object.entries(QUESTIONS)) {
    await t.test(name, async (t) => {
      const [method = '', path = ''] = name.split(' ')
      for (const { query = '', key, body, status = 200 } of questions) {
        const reply = await fetch(`${url}${path}?${query}`, {
          method: method.toUpperCase(),
          headers: {
            ...(key && { authorization: `Bearer ${key}` }),
            ...(body && { 'content-type': 'application/json' }),
          },
          ...(body && { body: JSON.stringify(body) }),
        })
        t.equal(reply.status, status, `${query} ${JSON.stringify(body ?? '')}`)
        if (status === 401)
          t.match(reply.headers.get('www-authenticate'), /^Bearer realm=/, 'RFC 9110, 15.5.2')
        const { responses = {}, parameters = [] } = document.paths[path]?.[method] ?? {}
        const answer = responses[String(status)]
        if (!t.ok(answer, `${status} is documented`)) continue
        const etag = reply.headers.get('etag')
        t.equal(
          Object.hasOwn(answer?.headers ?? {}, 'ETag'),
          etag !== null,
          'whether it has an ETag is documented',
        )
        if (etag !== null) {
          const again = await fetch(`${url}${path}?${query}`, { headers: { 'if-none-match': etag } })
          t.equal(again.status, 304)
          t.ok(responses[304], '304 is documented')
          t.ok(parameters.some(({ in: where, name }) => where === 'header' && name === 'If-None-Match'))
        }
        const [[media, { schema }] = ['', { schema: {} }]] = Object.entries(answer?.content ?? {})
        t.ok((reply.headers.get('content-type') ?? '').startsWith(media), media)
        if (media !== 'application/json' || path === '/openapi.json') {
          await reply.body?.cancel()
          continue
        }
        const pointed = JSON.parse(
          JSON.stringify(schema).replace('#/components', 'document#/components'),
        ) as object
        const validate = ajv.compile(pointed)
        t.ok(validate(await reply.json()), JSON.stringify(validate.errors?.slice(0, 3)))
      }
    })
  }
})
