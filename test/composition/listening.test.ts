import dns from 'node:dns'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify from 'fastify'
import { pino } from 'pino'
import { test } from 'tap'
import { addressOf } from '../../src/commands/address.js'
import { startFederation } from '../../src/composition/federation.js'
import { listening } from '../../src/composition/serving.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'

type Found = (...found: unknown[]) => void

test('a free port that another process takes first is given up for the next one', async (t) => {
  const thief = createServer()
  thief.on('error', () => {}) // somebody else took the port even before
  t.teardown(() => thief.close())
  const asked: string[] = []
  const { app, url } = await listening({ host: '127.0.0.1', port: 0, publicUrl: undefined }, (publicUrl) => {
    asked.push(publicUrl)
    if (asked.length === 1) thief.listen(Number(new URL(publicUrl).port), '127.0.0.1')
    return Fastify()
  })
  t.teardown(() => app.close())
  t.ok(asked.length > 1)
  t.equal(url, asked.at(-1), 'it listens where its card says')
})

test('an address of IPv6 stands in urls between brackets, where it listens and where commands ask', async (t) => {
  const asked: string[] = []
  const { app, url } = await listening({ host: '::1', port: 0, publicUrl: undefined }, (publicUrl) => {
    asked.push(publicUrl)
    return Fastify()
  })
  t.teardown(() => app.close())
  t.equal(new URL(asked.at(-1) ?? '').origin, new URL(url).origin)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-address-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const host of ['::1', '::']) {
    const config = join(folder, 'config.json')
    await writeFile(config, JSON.stringify({ listen: { host, port: 18 } }))
    const { base } = await addressOf({ config, url: undefined, token: undefined }, 'operator')
    t.equal(base, 'http://[::1]:18', host)
  }
})

test('a port that was configured and is taken is an error', async (t) => {
  const first = await listening({ host: '127.0.0.1', port: 0, publicUrl: undefined }, () => Fastify())
  t.teardown(() => first.app.close())
  const port = Number(new URL(first.url).port)
  await t.rejects(
    listening({ host: '127.0.0.1', port, publicUrl: undefined }, () => Fastify()),
    { code: 'EADDRINUSE' },
  )
})

test('a start that fails says why, also when not all that had started can be stopped', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-start-'))
  const { app, url } = await listening({ host: '127.0.0.1', port: 0, publicUrl: undefined }, () => Fastify())
  t.teardown(async () => {
    await app.close()
    await rm(folder, { recursive: true, force: true })
  })
  const file = { listen: { port: Number(new URL(url).port) }, storage: { url: `file:${folder}` } }
  const told: string[] = []
  const clock = {
    ...systemClock,
    after(ms: number, task: () => void) {
      systemClock.after(ms, task)
      return () => {
        throw new Error('a timer cannot be ended')
      }
    },
  }
  await t.rejects(
    startFederation({
      ...{ config: parseConfig('test', JSON.stringify(file), {}), version: '0.0.0' },
      ...{ clock, random: Math.random, log: pino({}, { write: (line: string) => void told.push(line) }) },
    }),
    { code: 'EADDRINUSE' },
  )
  t.match(told.join(''), /a timer cannot be ended/, 'what could not be stopped is in the log')
})

test('a name with two addresses has one listener, which is the one that the bounds of the server are set on', async (t) => {
  const real = dns.lookup
  t.teardown(() => Object.assign(dns, { lookup: real }))
  const both = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ]
  const lookup = (name: string, ...[how, given]: [{ all?: boolean }, Found] | [Found]) => {
    const done = given ?? (how as Found)
    if ('all' in how && how.all) done(null, both)
    else if (name === '::1') done(null, name, 6)
    else done(null, '127.0.0.1', 4)
  }
  Object.assign(dns, { lookup })
  const { app } = await listening({ host: 'localhost', port: 0, publicUrl: undefined }, () => Fastify())
  t.teardown(() => app.close())
  t.equal(app.addresses().length, 1)
})
