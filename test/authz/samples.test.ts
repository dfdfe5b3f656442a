import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { inspect } from '../../src/authz/provider/inspector.js'
import { renderReport, reportProvider } from '../../src/authz/report.js'
import { decide } from '../../src/authz/rules/verdict.js'
import { compiled, NOW, stateWith } from './compiled.js'

const FOLDER = '../shared/adcp/adagents/docs'
const skip = existsSync(FOLDER) ? false : `${FOLDER} is not here`

type Sample = {
  signals?: { id: string }[]
  authorized_agents?: { url: string }[]
  authoritative_location?: string
}

test("the protocol's sample files are read with sensible verdicts", { skip }, async (t) => {
  const names = readdirSync(FOLDER)
  t.ok(names.length >= 30, `${names.length} files`)
  for (const name of names) {
    const text = readFileSync(join(FOLDER, name), 'utf8')
    const sample = JSON.parse(text) as Sample
    const kind = inspect(Buffer.from(text)).kind
    // Some samples are fragments: a pointer, or signals alone, which without authorized_agents are no file.
    const expected = sample.authoritative_location
      ? 'pointer'
      : sample.authorized_agents
        ? 'document'
        : 'invalid'
    t.equal(kind, expected, name)
    if (kind !== 'document') continue
    const file = compiled(text)
    t.same(file.rules?.diagnostics, [], `${name}: nothing is skipped`)
    t.ok(renderReport(reportProvider(stateWith(text), file, NOW)).length > 0)
    for (const { id } of sample.signals ?? []) {
      t.match(decide(file, id, 'https://stranger.example/', NOW), { outcome: 'unauthorized' })
    }
  }
})

test('the sample grants are granted as their words say', { skip }, async (t) => {
  const read = (name: string) => compiled(readFileSync(join(FOLDER, `${name}.json`), 'utf8'))
  const agent = 'https://signals-agent.example.com/'
  const pinnacle = read('data-providers-12')
  const luminary = 'https://luminary-data.com/.well-known/adcp/signals'
  const nova = 'https://nova-dsp.com/.well-known/adcp/signals'
  t.match(decide(pinnacle, 'vehicle_ownership', luminary, NOW), { outcome: 'authorized', entries: [0] })
  t.match(decide(pinnacle, 'likely_ev_buyers', nova, NOW), { outcome: 'authorized', entries: [1] })
  t.match(decide(pinnacle, 'vehicle_ownership', nova, NOW), { reason: 'agent_not_listed_for_signal' })
  t.match(decide(read('data-providers-00'), 'likely_ev_buyers', agent, NOW), { outcome: 'authorized' })
  t.match(decide(read('ecosystem-01'), 'dwell_time', agent, NOW), { outcome: 'authorized' })
  t.match(decide(read('ecosystem-03'), 'loyalty_tier', agent, NOW), { outcome: 'authorized' })
  t.match(decide(read('data-providers-05'), 'likely_ev_buyers', 'https://premium-agent.example.com/', NOW), {
    reason: 'signal_not_published',
  })
})
