import { test } from 'tap'
import { createWorld, granting, HOUR, named, WELL_KNOWN } from './world.js'

const P = `p.example${WELL_KNOWN}`

test('a file that did not change is confirmed, not sent again', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, {
    body: granting(['s1']),
    headers: { etag: '"v1"', 'last-modified': 'Sun, 01 Mar 2026 00:00:00 GMT' },
  })
  providers.want(named(['p.example']))
  await providers.settled()
  const first = providers.state('p.example')
  world.jump(HOUR)
  const second = await providers.refresh('p.example')
  t.match(world.web.requests.at(-1)?.headers, {
    'if-none-match': '"v1"',
    'if-modified-since': 'Sun, 01 Mar 2026 00:00:00 GMT',
  })
  t.equal(second?.document?.bytes, first?.document?.bytes, 'the same bytes in memory')
  t.equal(second?.document?.fetchedAt, first?.document?.fetchedAt)
  t.equal(second?.confirmedAt, (first?.confirmedAt ?? 0) + HOUR)
  t.equal(second?.expiresAt, (first?.expiresAt ?? 0) + HOUR)
})

test('"unchanged" is believed only from the url that the validator came from', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { status: 302, headers: { location: 'https://www.p.example/a.json' } })
  world.web.page('www.p.example/a.json', { body: granting(['s1']), headers: { etag: '"v1"' } })
  world.web.page('www.p.example/b.json', { body: granting(['s2']), headers: { etag: '"v1"' } })
  providers.want(named(['p.example']))
  await providers.settled()
  const first = providers.state('p.example')?.document
  world.web.page(P, { status: 302, headers: { location: 'https://www.p.example/b.json' } })
  const second = (await providers.refresh('p.example'))?.document
  t.equal(second?.url, 'https://www.p.example/b.json')
  t.not(second?.digest, first?.digest)
})

test('a pointer and the file behind it are each confirmed by their own validator', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: { authoritative_location: 'https://cdn.example/a' }, headers: { etag: '"p"' } })
  world.web.page('cdn.example/a', { body: granting(['s1']), headers: { etag: '"a"' } })
  providers.want(named(['p.example']))
  await providers.settled()
  world.jump(HOUR)
  const state = await providers.refresh('p.example')
  t.same(
    world.web.requests.map(({ page, headers }) => [page, headers['if-none-match']]),
    [
      [P, undefined],
      ['cdn.example/a', undefined],
      [P, '"p"'],
      ['cdn.example/a', '"a"'],
    ],
  )
  t.equal(state?.confirmedAt, world.clock.now())
})

test('an equal catalog_etag does not hide other bytes', async (t) => {
  const world = await createWorld()
  t.teardown(world.close)
  const providers = world.providers()
  world.web.page(P, { body: granting(['s1'], { catalog_etag: 'c1' }) })
  providers.want(named(['p.example']))
  await providers.settled()
  t.equal(providers.state('p.example')?.document?.catalogEtag, 'c1')
  const before = providers.state('p.example')?.document?.digest
  world.web.page(P, { body: granting([], { catalog_etag: 'c1' }) })
  t.not((await providers.refresh('p.example'))?.document?.digest, before, 'a revocation is seen')
})
