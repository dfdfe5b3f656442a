import { test } from 'tap'
import type { Signal } from '../support/federation.js'
import { BUYER, type Json, OPERATOR, OTHER, read, startConsoleWorld } from './support/console-world.js'

type Facets = Record<string, { value: string; count: number }[]>
const handlesOf = (signals: readonly Signal[]) => signals.map((signal) => signal.signal_agent_segment_id)

test('the feed page shows each caller what a walk gives, however it is filtered and ordered', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { url } = world.federation

  /** Every row that the page can be brought to show for a question. */
  async function walked(query: string, key = BUYER): Promise<Signal[]> {
    const rows: Signal[] = []
    let after = ''
    do {
      const { body } = await read(url, `signals?${query}&limit=37${after}`, key)
      rows.push(...(body.signals as Signal[]))
      after = body.next === undefined ? '' : `&after=${encodeURIComponent(String(body.next))}`
    } while (after !== '')
    return rows
  }

  const QUESTIONS: [query: string, asked: Json][] = [
    ['', {}],
    ['provider=motorledger.example', { filters: { data_providers: ['motorledger.example'] } }],
    ['type=owned&type=custom', { filters: { catalog_types: ['owned', 'custom'] } }],
    ['max_cpm=2', { filters: { max_cpm: 2 } }],
    ['max_cpm=2&currency=EUR', { filters: { max_cpm: 2, ext: { tributary: { currency: 'EUR' } } } }],
    ['max_cpm=.5', { filters: { max_cpm: 0.5 } }],
    ['min_coverage=20', { filters: { min_coverage_percentage: 20 } }],
    ['country=de&country=FR', { countries: ['DE', 'FR'] }],
    ['destination=platform:dv360', { destinations: [{ type: 'platform', platform: 'dv360' }] }],
    [
      'destination=agent:https://wonderstruck.salesagents.example/&country=US',
      {
        destinations: [{ type: 'agent', agent_url: 'https://wonderstruck.salesagents.example/' }],
        countries: ['US'],
      },
    ],
  ]

  await t.test('shows the rows of get_signals for the same selection, no more and no others', async (t) => {
    for (const [query, asked] of QUESTIONS) {
      const pages = await world.walk(asked, BUYER)
      const wholesale = pages.flatMap((page) => page.signals ?? [])
      const shown = await walked(query)
      const inOrder = (rows: Signal[]) => new Map(rows.map((row) => [row.signal_agent_segment_id, row]))
      t.equal(shown.length, wholesale.length, query)
      const [own, other] = [inOrder(shown), inOrder(wholesale)]
      t.equal(own.size, shown.length, 'each once')
      t.ok(
        [...own].every(([handle, row]) => JSON.stringify(row) === JSON.stringify(other.get(handle))),
        query,
      )
      const { body } = await read(url, `signals?${query}`, BUYER)
      t.equal(body.total, pages[0]?.pagination?.total_count)
      const copied = body.get_signals as Json
      for (const name of ['filters', 'countries', 'destinations']) t.same(copied[name], asked[name], query)
      const again = await world.walk(copied, BUYER)
      t.same(handlesOf(again.flatMap((page) => page.signals ?? [])), handlesOf(wholesale), 'the copied call')
    }
  })

  await t.test('orders by what it is asked to, each row once over all pages', async (t) => {
    const cpm = (row: Signal) =>
      Math.min(
        ...(row.pricing_options ?? []).map(
          (one) => (one as unknown as { cpm?: number }).cpm ?? Number.POSITIVE_INFINITY,
        ),
      )
    const price = (await walked('sort=price')).map(cpm)
    t.same(
      price,
      [...price].sort((a, b) => a - b),
    )
    const names = (await walked('sort=name')).map((row) => String(row.name).toLowerCase())
    t.same(names, [...names].sort())
    t.equal(names.length, price.length)
    const coverage = (await walked('sort=coverage')).map((row) => Number(row.coverage_percentage ?? -1))
    t.same(
      coverage,
      [...coverage].sort((a, b) => b - a),
    )
    const sellers = (await walked('sort=sellers')).map((row) => row.ext.tributary.offers.length)
    t.same(
      sellers,
      [...sellers].sort((a, b) => b - a),
    )
  })

  await t.test('counts what each choice of a facet would find', async (t) => {
    for (const query of [
      '',
      'country=DE',
      'country=DE&type=owned',
      'provider=motorledger.example&type=marketplace',
      'value_type=binary',
    ]) {
      const { body } = await read(url, `facets?${query}`, BUYER)
      for (const [name, values] of Object.entries(body.facets as Facets)) {
        const facet = name === 'price' ? 'max_cpm' : name
        for (const { value, count } of values) {
          const others = new URLSearchParams(query)
          others.delete(facet)
          others.append(facet, value)
          const found = await read(url, `signals?${others}`, BUYER)
          t.equal(found.body.total, count, `${query}: ${others}`)
        }
      }
    }
  })

  await t.test('counts prices as if none was chosen, in the currency that is asked for', async (t) => {
    const prices = async (query: string) =>
      ((await read(url, `facets?${query}`, BUYER)).body.facets as Facets).price
    t.ok((await prices(''))?.length)
    t.same(await prices('max_cpm=2&currency=EUR'), await prices('currency=EUR'))
    t.same(await prices('max_cpm=2'), await prices(''))
  })

  await t.test('narrows by seller and value type among what the caller may see', async (t) => {
    const all = new Set(handlesOf(await walked('')))
    const sold = await walked('upstream=signals.northwind.example')
    t.ok(sold.length > 0 && sold.length < all.size)
    t.ok(
      sold.every((row) =>
        row.ext.tributary.offers.some((one) => one.upstream === 'signals.northwind.example'),
      ),
    )
    const binary = await walked('value_type=binary')
    t.ok(binary.length > 0 && binary.every((row) => row.value_type === 'binary'))
  })

  await t.test('finds words while they are typed', async (t) => {
    const names = async (q: string) =>
      (await walked(`q=${encodeURIComponent(q)}`)).map((row) => `${row.name} ${row.description}`)
    const whole = await names('automotive')
    const typed = await names('automot')
    t.ok(whole.length > 0)
    t.same(typed, whole, 'the word that is begun')
    t.same(await names('zzzzqqqq'), [])
    const every = new Set(handlesOf(await walked('')))
    for (const [query, order] of [
      ['q=the', ''],
      ['q=%2F', ''],
      ['q=the', '&sort=name'],
    ]) {
      const found = handlesOf(await walked(`${query}${order}`))
      t.same(new Set(found), every, `${query}: words that say nothing find all, and none that is withheld`)
      t.equal((await read(url, `facets?${query}`, BUYER)).body.total, found.length)
    }
    const both = await walked('q=buyers&provider=larderloyalty.example')
    t.ok(both.length > 0)
    t.ok(both.every((row) => row.signal_ref.data_provider_domain === 'larderloyalty.example'))
    const { body } = await read(url, 'facets?q=buyers&provider=larderloyalty.example', BUYER)
    t.ok((body.facets as Facets).provider?.some(({ value }) => value === 'larderloyalty.example'))
  })

  await t.test('refuses what get_signals refuses or would not apply, naming the parameter', async (t) => {
    const refused: [query: string, parameter: string][] = [
      ['max_cpm=cheap', 'max_cpm'],
      ['max_cpm=-1', 'max_cpm'],
      ['max_cpm=1e999', 'max_cpm'], // JSON has no such number
      ['max_cpm=%20', 'max_cpm'],
      ['max_cpm=0x10', 'max_cpm'],
      ['min_coverage=%09', 'min_coverage'],
      ['destination=dv360', 'destination'],
      ['destination=platform:', 'destination'],
      ['destination=platform:%23account', 'destination'],
      ['destination=agent:dv360', 'destination'],
      ['destination=platform:dv360&destination=dv360', 'destination'],
      ['max_cpm=2&currency=xx', 'currency'],
      ['type=none', 'type'],
      ['country=Germany', 'country'],
      ['value_type=colour', 'value_type'],
      ['sort=colour', 'sort'],
      ['limit=1000', 'limit'],
      ['after=garbage', 'after'],
      ['sort=price&after=NaN%20sig_SY-svn64mX7JilZEMkTvtj', 'after'],
      ['sort=price&after=1%20sig_short', 'after'],
      ['sort=price&after=1e400%20sig_SY-svn64mX7JilZEMkTvtj', 'after'],
      ['sort=price&after=5', 'after'], // of a search: it would begin anew
      ['sort=name&after=garbage', 'after'],
      ['sort=provider&after=garbage%20sig_SY-svn64mX7JilZEMkTvtj', 'after'],
      ['q=auto&after=1.5', 'after'],
      ['account=nobody', 'account'],
      [`q=${'x'.repeat(600)}`, 'q'],
    ]
    for (const [query, parameter] of refused) {
      const { status, body } = await read(url, `signals?${query}`, BUYER)
      t.equal(status, 400, query)
      t.equal(body.parameter, parameter)
    }
  })

  await t.test('an activation key is shown to whom it is granted and to nobody else', async (t) => {
    const keysOf = (rows: Signal[]) =>
      rows.flatMap((row) => row.deployments.flatMap((one) => one.activation_key ?? []))
    t.ok(keysOf(await walked('', BUYER)).length > 0)
    t.same(keysOf(await walked('', OTHER)), [])
    t.same(keysOf(await walked('', OPERATOR)), [])
  })

  await t.test('one signal: its row for callers, and for operators why it is there', async (t) => {
    const [first] = await walked('upstream=signals.northwind.example&provider=motorledger.example')
    const id = first?.signal_agent_segment_id ?? ''
    const own = await read(url, `signal?id=${id}`, BUYER)
    t.same(own.body.signal, first)
    t.same(Object.keys(own.body).sort(), ['get_signals', 'signal'], 'nothing that get_signals would not show')
    const { body } = await read(url, `signal?id=${id}`, OPERATOR)
    t.match(body, { explanation: { reason: 'present' }, definition: { description: String } })
    const sources = body.sources as { upstream: string }[]
    t.same(
      sources.map(({ upstream }) => upstream),
      first?.ext.tributary.offers.map(({ upstream }) => upstream),
    )
    const evidence = body.evidence as { at: string; text: string }[]
    t.match(evidence[0]?.at, /^\/authorized_agents\/\d+$/)
    t.match(JSON.parse(evidence[0]?.text ?? 'null'), { url: String }, 'the lines of adagents.json')
    t.same(
      (body.seen_by as { caller: string }[]).map(({ caller }) => caller),
      ['op', 'buyer', 'other'],
    )
  })

  await t.test('one that is not there: callers learn nothing, operators why', async (t) => {
    const { status, text } = await read(url, 'signal?id=sig_AAAAAAAAAAAAAAAAAAAAAA', BUYER)
    t.equal(status, 404)
    t.equal(text, (await read(url, 'signal?id=nothing', BUYER)).text)
    const [there] = await walked('')
    const handle = there?.signal_agent_segment_id ?? ''
    const last = handle.endsWith('A') ? 'B' : 'A'
    for (const other of [`${handle}AAAA`, `${handle}.x`, `${handle}%20`, handle.slice(0, -1) + last]) {
      t.equal((await read(url, `signal?id=${other}`, BUYER)).text, text, other)
      t.notOk((await read(url, `signal?id=${other}`, OPERATOR)).body.signal, other)
    }
    const { body } = await read(url, 'signal?id=motorledger.example/nothing_of_the_kind', OPERATOR)
    t.match(body, { explanation: { kind: 'unknown' } })
    t.notOk(body.signal)
  })
})
