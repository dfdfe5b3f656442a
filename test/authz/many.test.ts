import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { createWorld, granting, named, WELL_KNOWN } from './world.js'

const HOSTS = Array.from({ length: 300 }, (_, i) => `p${i}.example`)

test('hundreds of providers that share one file cost one request for it, and hold it once', async (t) => {
  const world = await createWorld({ hosts: [...HOSTS, 'network.example'], concurrency: 16 })
  t.teardown(world.close)
  for (const host of HOSTS) {
    world.web.page(`${host}${WELL_KNOWN}`, {
      body: { authoritative_location: 'https://network.example/all' },
    })
  }
  world.web.page('network.example/all', { body: granting(['s1']) })
  world.providers().want(named(HOSTS))
  await world.providers().settled()
  t.equal(world.web.asked('network.example/all'), 1)
  t.equal(world.web.requests.length, HOSTS.length + 1)
  const held = new Set(
    world
      .providers()
      .states()
      .map(({ document }) => document?.bytes),
  )
  t.equal(held.size, 1)
  t.notOk(held.has(undefined))

  const again = await world.restart()
  again.want(named(HOSTS))
  await again.settled()
  t.equal(new Set(again.states().map(({ document }) => document?.bytes)).size, 1, 'after a restart too')
})

test('no more providers are fetched at a time than configured, and no fewer', async (t) => {
  const atOnce = 4
  const world = await createWorld({ hosts: HOSTS, concurrency: atOnce })
  t.teardown(world.close)
  const waiting: ServerResponse[] = []
  const most: number[] = []
  const answer = () => {
    most.push(waiting.length)
    for (const each of waiting.splice(0)) each.writeHead(404).end()
  }
  for (const host of HOSTS.slice(0, 60)) {
    world.web.page(`${host}${WELL_KNOWN}`, (_, response) => {
      if (waiting.push(response) === atOnce) setTimeout(answer, 10) // by then one too many would have come
    })
  }
  // Of each upstream's providers no more than half as many.
  world
    .providers()
    .want(
      new Map([
        ...named(HOSTS.slice(0, 30), 'https://one.example/mcp'),
        ...named(HOSTS.slice(30, 60), 'https://two.example/mcp'),
      ]),
    )
  await world.providers().settled()
  t.equal(world.web.requests.length, 60)
  t.same(
    most,
    Array.from({ length: 60 / atOnce }, () => atOnce),
  )
})
