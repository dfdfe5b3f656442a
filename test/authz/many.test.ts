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

test('no more providers are fetched at a time than configured', async (t) => {
  const world = await createWorld({ hosts: HOSTS, concurrency: 4 })
  t.teardown(world.close)
  let under = 0
  let most = 0
  for (const host of HOSTS.slice(0, 60)) {
    world.web.page(`${host}${WELL_KNOWN}`, (_, response) => {
      under += 1
      most = Math.max(most, under)
      setImmediate(() => {
        under -= 1
        response.writeHead(404).end()
      })
    })
  }
  world.providers().want(named(HOSTS.slice(0, 60)))
  await world.providers().settled()
  t.equal(world.web.requests.length, 60)
  t.ok(most > 1 && most <= 4, `${most} at a time`)
})
