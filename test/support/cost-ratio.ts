const TURNS = 50

/** Work that is done so often, so that the cost of one can be measured. */
type Repeated = { work(): unknown; times: number }

/** CPU of one. How a short time is divided between user and system is a guess of the kernel's. */
async function costOf({ work, times }: Repeated): Promise<number> {
  const before = process.cpuUsage()
  for (let done = 0; done < times; done += 1) await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / times
}

/**
 * How many times as much CPU `many` takes as `few`; measured until it is less than `most`. Both in turn and the least of each, so
 * that other work on the machine meets both alike; on a busy one it takes more turns.
 */
export async function costRatio(few: Repeated, many: Repeated, most: number): Promise<number> {
  const least = { few: Number.POSITIVE_INFINITY, many: Number.POSITIVE_INFINITY }
  let ratio = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < TURNS && !(ratio < most); turn += 1) {
    least.few = Math.min(least.few, await costOf(few))
    least.many = Math.min(least.many, await costOf(many))
    ratio = least.many / least.few
  }
  return ratio
}
