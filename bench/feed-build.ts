/** DESIGN 8: merge + index, listings/s on one core; memory a signal; filters; pages; an incremental build. */
import { buildSnapshot } from '../src/feed/builder.js'
import { benchSlice, everyoneMay, range } from './feed-world.js'

const COUNT = Number(process.argv[2] ?? 200_000)
const UPSTREAMS = 20

const slices = Array.from({ length: UPSTREAMS }, (_, at) =>
  benchSlice(at, range((COUNT / UPSTREAMS) * at, (COUNT / UPSTREAMS) * (at + 1))),
)
console.log(
  'slices ready',
  slices.reduce((s, x) => s + x.rows.chunks.reduce((a, c) => a + c.byteLength, 0), 0) / COUNT,
)
for (let i = 0; i < 2; i++) {
  const started = performance.now()
  const cpu = process.cpuUsage()
  const snapshot = buildSnapshot({ slices, judge: everyoneMay })
  const took = performance.now() - started
  const used = process.cpuUsage(cpu)
  console.log(
    'cpu us/row',
    ((used.user + used.system) / COUNT).toFixed(2),
    'sys',
    (used.system / COUNT).toFixed(2),
  )
  console.log(
    snapshot.shown.length,
    snapshot.id,
    took.toFixed(0),
    'ms',
    ((COUNT / took) * 1000).toFixed(0),
    '/s',
  )
  console.log('bytes/row', snapshot.rows.chunks.reduce((a, c) => a + c.byteLength, 0) / COUNT)
}
