import { test } from 'tap'
import type { CoverageForecast } from '../../src/adcp/coverage-forecast.js'
import type { SignalRow } from '../../src/adcp/signal.js'
import { fileAt, open, rowsOf, walk } from './support/world.js'

const key = ({ signal_ref: ref }: SignalRow) =>
  ref?.scope === 'data_provider' ? `${ref.data_provider_domain} ${ref.signal_id}` : ''

test('two agents offer the same provider signals at different prices, one live and one not', async (t) => {
  const sandbox = await open(t)
  const northwind = new Map(rowsOf(await walk(sandbox, 'northwind')).map((row) => [key(row), row]))
  const both = rowsOf(await walk(sandbox, 'meridian')).filter(
    (row) => key(row) !== '' && northwind.has(key(row)),
  )
  t.ok(both.length > 50, `${both.length} signals overlap`)
  const tradeDesk = (row?: SignalRow) =>
    row?.deployments.find((each) => each.type === 'platform' && each.platform === 'the-trade-desk')
  const pairs = both.map((row) => [northwind.get(key(row)) as SignalRow, row] as const)
  t.ok(
    pairs.every(
      ([ours, theirs]) => JSON.stringify(ours.pricing_options) !== JSON.stringify(theirs.pricing_options),
    ),
  )
  t.ok(
    pairs.every(([, theirs]) => tradeDesk(theirs)?.is_live === false && !tradeDesk(theirs)?.activation_key),
  )
  const live = pairs.filter(([ours]) => tradeDesk(ours)?.is_live)
  t.ok(live.length > pairs.length / 2 && live.every(([ours]) => tradeDesk(ours)?.activation_key))
})

test('some rows claim another consent basis than the provider’s file', async (t) => {
  const sandbox = await open(t)
  type Definition = { id: string; consent_basis?: string[] }
  const { signals } = await fileAt(sandbox, 'https://larderloyalty.example/.well-known/adagents.json')
  const published = new Map((signals as Definition[]).map(({ id, consent_basis }) => [id, consent_basis]))
  const claims = rowsOf(await walk(sandbox, 'meridian')).flatMap(({ signal_ref: ref, consent_basis }) => {
    const provided = ref?.scope === 'data_provider' && ref.data_provider_domain === 'larderloyalty.example'
    return provided ? [{ claimed: consent_basis, published: published.get(ref.signal_id) }] : []
  })
  const wrong = claims.filter(
    ({ claimed, published }) => JSON.stringify(claimed) !== JSON.stringify(published),
  )
  t.ok(wrong.length > 10 && wrong.length < claims.length, `${wrong.length} of ${claims.length} differ`)
  t.ok(
    (signals as Definition[]).some(({ consent_basis }) => consent_basis === undefined),
    'some definitions say nothing',
  )
})

test('the market has every pricing model, kind of deployment, forecast and signal type', async (t) => {
  const sandbox = await open(t)
  const rows = (
    await Promise.all((['northwind', 'meridian', 'harborlight'] as const).map((id) => walk(sandbox, id)))
  ).flatMap(rowsOf)
  const set = (values: unknown[]) => [...new Set(values)].sort()
  const options = rows.flatMap(({ pricing_options }) => pricing_options ?? [])
  t.same(set(options.map(({ model }) => model)), [
    'cpm',
    'custom',
    'flat_fee',
    'per_unit',
    'percent_of_media',
  ])
  t.ok(
    rows.some(({ pricing_options }) => !pricing_options),
    'a bundled signal has no price',
  )
  const deployments = rows.flatMap((row) => row.deployments)
  t.same(set(deployments.map(({ type, is_live }) => `${type} ${is_live}`)), [
    'agent false',
    'agent true',
    'platform false',
    'platform true',
  ])
  const forecasts = rows.flatMap(({ coverage_forecast }) => (coverage_forecast as CoverageForecast) ?? [])
  const kinds = forecasts.map(
    ({ bucket_semantics, bucket_completeness }) => `${bucket_semantics} ${bucket_completeness}`,
  )
  t.same(set(kinds), ['exclusive complete', 'overlapping partial'])
  t.same(set(rows.map(({ signal_type }) => signal_type)), ['custom', 'marketplace', 'owned'])
  t.same(set(rows.map(({ value_type }) => value_type)), ['binary', 'categorical', 'numeric'])
})

test('the scalar agrees with the absent bucket, and exclusive buckets cover the whole', async (t) => {
  const sandbox = await open(t)
  for (const { coverage_forecast, coverage_percentage } of rowsOf(await walk(sandbox, 'meridian'))) {
    const forecast = coverage_forecast as CoverageForecast | undefined
    if (forecast?.bucket_completeness !== 'complete') continue
    const rates = forecast.points.map(({ metrics }) => metrics.coverage_rate.mid ?? 0)
    const absent = forecast.points.at(-1)
    if (absent?.dimensions[0]?.presence !== 'absent') t.fail('no absent bucket')
    const scalar = 100 * (1 - (rates.at(-1) ?? 0))
    if (Math.abs(scalar - (coverage_percentage ?? 0)) > 0.005)
      t.fail(`scalar ${coverage_percentage}, forecast ${scalar}`)
    const whole = rates.reduce((sum, rate) => sum + rate, 0)
    if (Math.abs(whole - 1) > 0.0005) t.fail(`buckets sum to ${whole}`)
  }
})
