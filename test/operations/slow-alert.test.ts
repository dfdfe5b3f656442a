/** The alert about slow answers, evaluated as Prometheus would over what a server shows. */
import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { parse } from 'yaml'
import { createOverload } from '../../src/server/door/overload.js'
import { createServingMetrics } from '../../src/server/monitoring.js'

const WINDOW_SECONDS = 300

type Bucket = { le: number; rate: number }
type Rules = { groups: { rules: { alert: string; expr: string }[] }[] }

const labelsIn = (text: string) =>
  new Map([...text.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value] as const))

/** The rates of the series that match, summed by their bound: all of them are of one instance. */
function bucketsOf(metrics: string, name: string, wanted: ReadonlyMap<string, string>): Bucket[] {
  const rates = new Map<number, number>()
  for (const [, series = '', text = '', value] of metrics.matchAll(/^(\w+)\{(.*)\} (\S+)$/gm)) {
    const labels = labelsIn(text)
    if (series !== name || [...wanted].some(([label, is]) => labels.get(label) !== is)) continue
    const le = Number(labels.get('le')?.replace('+Inf', 'Infinity'))
    rates.set(le, (rates.get(le) ?? 0) + Number(value) / WINDOW_SECONDS)
  }
  return [...rates].map(([le, rate]) => ({ le, rate })).sort((a, b) => a.le - b.le)
}

/** As Prometheus has it: linear inside a bucket, and the last finite bound where it falls into the last one. */
function quantileOf(quantile: number, buckets: readonly Bucket[]): number {
  const all = buckets.at(-1)?.rate ?? 0
  if (all === 0) return Number.NaN
  const rank = quantile * all
  const at = buckets.findIndex(({ rate }) => rate >= rank)
  if (at === buckets.length - 1) return buckets[at - 1]?.le ?? Number.NaN
  const { le: end = 0, rate = 0 } = buckets[at] ?? {}
  const { le: start, rate: below } = buckets[at - 1] ?? { le: 0, rate: 0 }
  return start + ((end - start) * (rank - below)) / (rate - below)
}

const FORM =
  /^histogram_quantile\(([\d.]+), sum by \(instance, le\) \(rate\((\w+)\{(.*)\}\[5m\]\)\)\) > ([\d.]+)$/

function fires(expr: string, metrics: string): boolean {
  const [, quantile, name = '', labels = '', bound] = FORM.exec(expr) ?? []
  if (name === '') throw new Error(`the test cannot read ${expr}`)
  return quantileOf(Number(quantile), bucketsOf(metrics, name, labelsIn(labels))) > Number(bound)
}

test('slow briefs do not look like slow pages', async (t) => {
  const rules = (parse(await readFile('deploy/alerts.yaml', 'utf8')) as Rules).groups.flatMap(
    (group) => group.rules,
  )
  const { expr = '' } = rules.find(({ alert }) => alert === 'TributarySlow') ?? {}
  const overload = createOverload()
  t.teardown(overload.close)
  /** What a server shows after so many calls. */
  async function shown(calls: readonly { mode: string; ms: number; times: number }[]): Promise<string> {
    const { registry, observe } = createServingMetrics(overload)
    for (const { mode, ms, times } of calls) {
      for (let made = 0; made < times; made += 1) {
        const call = { task: 'get_signals', transport: 'mcp' as const, outcome: 'completed', requestId: 'r' }
        observe({ ...call, mode, ms })
      }
    }
    return await registry.metrics()
  }
  const pages = { mode: 'wholesale', ms: 3, times: 980 }
  const slowBriefs = { mode: 'brief', ms: 25_000, times: 20 }
  t.notOk(fires(expr, await shown([pages, slowBriefs])), 'two of a hundred calls are briefs that took 25 s')
  t.notOk(fires(expr, await shown([pages, { ...slowBriefs, times: 980 }])), 'or half of them')
  t.notOk(fires(expr, await shown([slowBriefs])), 'or all')
  t.ok(fires(expr, await shown([pages, { mode: 'wholesale', ms: 4_000, times: 20 }])), 'slow pages are seen')
})
