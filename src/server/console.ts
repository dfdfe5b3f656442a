/**
 * GET /: the console (docs/operations.md), one page that a browser shows to an operator. It is read-only, runs no
 * script and is made anew each time; all of its words may come from strangers.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Door } from './door/door.js'

export type Section = {
  title: string
  header: readonly string[]
  rows: readonly (readonly string[])[]
}

export type Overview = {
  facts: readonly (readonly [name: string, value: string])[]
  sections: readonly Section[]
}

const REFRESH_SECONDS = 30
const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}
const STYLE =
  'body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#222}table{border-collapse:collapse;margin-bottom:2rem}' +
  'th,td{text-align:left;vertical-align:top;padding:.2rem 1rem .2rem 0;border-bottom:1px solid #ddd}' +
  'td{max-width:60rem;overflow-wrap:anywhere}dt{float:left;width:9rem;color:#666}'

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string)
}

function page(body: string, head = ''): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tributary</title>${head}<style>${STYLE}</style></head><body><h1>Tributary</h1>${body}</body></html>`
}

function table({ title, header, rows }: Section): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  const body = rows.map((row) => cells('td', row)).join('')
  return `<h2>${escaped(title)}</h2><table><thead>${cells('th', header)}</thead><tbody>${body}</tbody></table>`
}

function shown({ facts, sections }: Overview): string {
  const list = facts.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join('')
  const head = `<meta http-equiv="refresh" content="${REFRESH_SECONDS}">`
  return page(`<dl>${list}</dl>${sections.map(table).join('')}`, head)
}

/** A browser asks its user for a name and a password: the password is the key. */
function asBearer({ headers }: FastifyRequest): void {
  const given = /^Basic +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (given === undefined) return
  const [, ...password] = Buffer.from(given, 'base64').toString().split(':')
  headers.authorization = `Bearer ${password.join(':')}`
}

export type ConsoleOptions = { door: Door; overview(): Overview }

export function addConsole(app: FastifyInstance, { door, overview }: ConsoleOptions): void {
  app.get('/', async (request, reply) => {
    asBearer(request)
    const who = await door.enter(request)
    reply.headers(HEADERS)
    if (who.kind === 'caller' && who.caller.role === 'operator') return shown(overview())
    if (who.kind === 'turned_away' && who.status !== 401) {
      return reply.code(who.status).send(page(`<p>${escaped(who.message)}</p>`))
    }
    return reply
      .code(401)
      .header('www-authenticate', 'Basic realm="tributary"')
      .send(
        page(
          '<p>The console needs the key of a caller with <code>role: operator</code>, as the password.</p>',
        ),
      )
  })
}
