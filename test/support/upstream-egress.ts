/** A real egress for tests of the guard, with the requests of a test cut to what it is about. */
import type { Resolve } from '../../src/net/addresses.js'
import { createEgress } from '../../src/net/egress.js'
import type { EgressPolicy } from '../../src/net/routes.js'
import type { Outbound } from '../../src/net/send.js'

type Test = { teardown(task: () => unknown): void }

export function openEgress(t: Test, policy: Partial<EgressPolicy> = {}, resolve?: Resolve) {
  const egress = createEgress({
    policy: { allowHttp: false, allowNetworks: [], hosts: {}, ...policy },
    ...(resolve && { resolve }),
  })
  t.teardown(() => egress.close())
  const get = (url: string, more: Partial<Outbound> = {}) =>
    egress.send({ url, timeoutMs: 30_000, maxBytes: 100_000, ...more })
  return { egress, get }
}

export const loopback = { allowNetworks: ['127.0.0.0/8'] }
