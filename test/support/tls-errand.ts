/** Run as a process of its own by tls.ts: sends the requests of each message through an egress, and answers what they gave. */
import { isIPv6 } from 'node:net'
import { createEgress } from '../../src/net/egress.js'
import type { EgressPolicy } from '../../src/net/routes.js'
import type { Outbound } from '../../src/net/send.js'

export type Errand = {
  policy: Partial<EgressPolicy>
  /** What each name resolves to, the first time, the second time and so on; the last one stays. */
  names?: Record<string, string[]>
  requests: ({ url: string } & Partial<Omit<Outbound, 'signal' | 'enough'>>)[]
}

async function sent({ policy, names = {}, requests }: Errand): Promise<object> {
  const asked: Record<string, number> = {}
  const egress = createEgress({
    policy: { allowHttp: false, allowNetworks: [], hosts: {}, ...policy },
    resolve: async (name) => {
      const answers = names[name] ?? []
      const at = asked[name] ?? 0
      asked[name] = at + 1
      const address = answers[Math.min(at, answers.length - 1)]
      return address ? [{ address, family: isIPv6(address) ? 6 : 4 }] : []
    },
  })
  const outcomes: object[] = []
  for (const request of requests) {
    const outcome = await egress.send({ timeoutMs: 30_000, maxBytes: 100_000, ...request })
    outcomes.push(
      outcome.kind === 'reply'
        ? { ...outcome, body: [], text: Buffer.from(outcome.body).toString() }
        : outcome,
    )
  }
  await egress.close()
  return { outcomes, asked }
}

process.on('message', async (errand: Errand) => process.send?.(await sent(errand)))
