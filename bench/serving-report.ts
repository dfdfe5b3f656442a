/** The rows of `serving.ts`: the middle of all rounds. */
import { type Bar, middle, report, rounded } from './report.js'
import type { Pair, Round } from './serving-client.js'
import type { Cost } from './serving-load.js'

/** A round over both protocols. */
export type OfPair = Record<keyof Pair, Round>
/** A round beside an official server. */
export type OfOfficial = Record<'official' | 'ours' | 'least', Cost>

type Compared = { ratio: number; limit: number; cost: Cost; bare: Cost; least: Cost }

function compared(all: readonly Round[]): Compared {
  const middleOf = (value: (round: Round) => number) => middle(all.map(value))
  const each = (who: keyof Round): Cost => ({
    cpuMicros: middleOf((round) => round[who].cpuMicros),
    rps: middleOf((round) => round[who].rps),
    p50: middleOf((round) => round[who].p50),
    p99: middleOf((round) => round[who].p99),
  })
  return {
    ratio: middleOf(({ bare, ours: own }) => bare.cpuMicros / own.cpuMicros),
    limit: middleOf(({ bare, least }) => bare.cpuMicros / least.cpuMicros),
    cost: each('ours'),
    bare: each('bare'),
    least: each('least'),
  }
}

/** A row, and what a request took. `limitedBy`: whom `least` stands for. */
export function print(what: string, all: readonly Round[], bar: Bar, limitedBy: string): void {
  const { ratio, limit: is, cost, bare, least } = compared(all)
  report({ what, measured: ratio, bar, limit: { is, of: limitedBy } })
  const times = `p50 ${rounded(cost.p50)} ms, p99 ${rounded(cost.p99)} ms, ${rounded(cost.rps / bare.rps)} of its rps`
  const others = `bare ${rounded(bare.cpuMicros)}, the least that it can be ${rounded(least.cpuMicros)}`
  console.log(`    ${rounded(cost.cpuMicros)} us of CPU a request (${others}), ${times}`)
}

/** Which part of MCP's ratio A2A reaches. */
export function printPair(what: string, all: readonly OfPair[], bar: Bar, limitedBy: string): void {
  const ratio = ({ bare }: Round, { cpuMicros }: Cost) => bare.cpuMicros / cpuMicros
  const part = (who: 'ours' | 'least') =>
    middle(all.map(({ a2a, mcp }) => ratio(a2a, a2a[who]) / ratio(mcp, mcp.ours)))
  report({ what, measured: part('ours'), bar, limit: { is: part('least'), of: limitedBy } })
  const words = (which: keyof Pair) => {
    const { ratio: is, cost } = compared(all.map((round) => round[which]))
    return `${rounded(is)} of the bare route, ${rounded(cost.cpuMicros)} us`
  }
  console.log(`    ${words('a2a')}; over MCP ${words('mcp')}`)
}

/** How many times as much an official server costs. */
export function printOfficial(what: string, all: readonly OfOfficial[], bar: Bar, limitedBy: string): void {
  const than = (who: 'ours' | 'least') =>
    middle(all.map((costs) => costs.official.cpuMicros / costs[who].cpuMicros))
  report({ what, measured: than('ours'), unit: 'x', bar, limit: { is: than('least'), of: limitedBy } })
}
