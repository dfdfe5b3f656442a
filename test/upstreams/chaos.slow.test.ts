import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { reservedPort } from '../support/reserved-port.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

const SCRIPT = fileURLToPath(new URL('../support/upstream-chaos.js', import.meta.url))
const UPSTREAMS = 5
const ROWS = 400
const RUN_MS = 6_000
const PATIENCE_MS = 120_000 // until all of it has happened on a busy machine
const KILL_EVERY_MS = 700
const SEED = 7

type Child = { process: ChildProcess; port: number }

async function start(port: number, seed: number, misdeeds: Record<string, number>): Promise<Child> {
  const child = spawn(process.execPath, [SCRIPT, String(port), String(seed), String(ROWS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })
  const [first] = (await once(lines, 'line')) as [string]
  lines.on('line', (misdeed: string) => add(misdeeds, { [misdeed]: 1 }))
  return { process: child, port: JSON.parse(first).port }
}

function add(into: Record<string, number>, counts: Record<string, number>): void {
  for (const [name, count] of Object.entries(counts)) into[name] = (into[name] ?? 0) + count
}

const EXPECTED = ['hang', 'reset', 'unavailable', 'garbage', 'half_page', 'cursor_loop', 'flapping', 'drip']

test('upstreams that misbehave in every known way never move the feed, lose a row or grow the process', async (t) => {
  t.comment(`seed ${SEED}`)
  const misdeeds: Record<string, number> = {}
  const children = await Promise.all(
    Array.from({ length: UPSTREAMS }, (_, at) =>
      reservedPort().then((port) => start(port, SEED + at, misdeeds)),
    ),
  )
  t.teardown(() => children.forEach(({ process: child }) => void child.kill('SIGKILL')))
  const statics = children.map(({ port }, at) => ({ id: `chaos-${at}`, url: `http://127.0.0.1:${port}/mcp` }))
  const config = configOf(statics, { refreshMs: 50, timeoutMs: 1_500 })
  const { upstreams, trouble } = await openUpstreams(t, config)
  const problems: Record<string, number> = {}
  let kills = 0

  await upstreams.start()
  await until('every feed once', () => upstreams.slices().length === UPSTREAMS, 120_000)
  const content = () => upstreams.slices().map(({ digests }) => digests.join())
  const before = content()
  t.ok(upstreams.slices().every(({ rows }) => rows.count === ROWS))

  let changes = 0
  upstreams.onChange(() => {
    changes += 1
  })
  const memory: number[] = []
  const begun = Date.now()
  const isLacking = () => EXPECTED.some((misdeed) => !misdeeds[misdeed])
  const goesOn = (ms: number) => ms < RUN_MS || (ms < PATIENCE_MS && isLacking())
  let nextKill = Date.now() + KILL_EVERY_MS
  while (goesOn(Date.now() - begun)) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    memory.push(process.memoryUsage().rss)
    for (const { problem } of upstreams.statuses()) if (problem) add(problems, { [problem.reason]: 1 })
    if (upstreams.slices().length < UPSTREAMS) t.fail('a slice was lost')
    if (Date.now() < nextKill) continue
    nextKill += KILL_EVERY_MS
    const victim = kills % UPSTREAMS
    const killed = children[victim] as Child
    killed.process.kill('SIGKILL')
    await once(killed.process, 'exit')
    kills += 1
    children[victim] = await start(killed.port, SEED + 100 + kills, misdeeds)
  }

  t.same(content(), before, 'the same rows, in the same order')
  t.equal(changes, 0, 'nobody was told of a change')
  t.same(trouble, [])
  const half = Math.floor(memory.length / 2)
  const peak = (from: number, to: number) => Math.max(...memory.slice(from, to)) / 1e6
  t.ok(peak(half, memory.length) < peak(0, half) + 80, 'memory stays flat')
  t.comment(`answers: ${JSON.stringify(misdeeds)}, kill -9: ${kills}`)
  t.comment(`problems seen while sampling: ${JSON.stringify(problems)}`)
  t.comment(`peak rss MB: ${peak(0, half).toFixed(0)} then ${peak(half, memory.length).toFixed(0)}`)
  for (const misdeed of EXPECTED) {
    t.ok((misdeeds[misdeed] ?? 0) > 0, `${misdeed} happened`)
  }
})
