/** Whole snapshots as text, to be compared. */
import { rowBytes, type Snapshot } from '../../src/snapshot/snapshot.js'

/** A column or a list as text that is quick to compare. */
function spelled(value: unknown): unknown {
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, spelled(member)]))
}

const words = (column: Uint32Array, list: readonly string[]) => [...column].map((id) => list[id])

/** All that readers, later builds and digests rest on; where rows lie in memory and how words are numbered is free. */
export function everything(snapshot: Snapshot): string {
  const { id, structure, pricing, keys, shown, digests, tree, facts, deployments, offers } = snapshot
  const { provider, domain, countries, providers, domains, countrySets, ...numbers } = facts
  const { destination, destinations, ...deployed } = deployments
  const rows = [...shown].map((entry) => Buffer.from(rowBytes(snapshot, entry)).toString())
  const named = {
    provider: words(provider, providers),
    domain: words(domain, domains),
    countries: words(countries, countrySets),
    destination: words(destination, destinations),
    bounds: words(offers.countries, countrySets),
  }
  const placed = { at: offers.at, stands: offers.stands }
  return JSON.stringify(
    spelled({
      ...{
        id,
        structure,
        pricing,
        keys,
        shown,
        numbers: spelled(numbers),
        named,
        deployed: spelled(deployed),
      },
      ...{ digests: spelled(digests), tree: spelled(tree), placed: spelled(placed), rows },
    }),
  )
}
