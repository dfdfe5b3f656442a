/** Rules on sizes: bounds so small that nothing could pass them, and bounds of a part beyond those of the whole. */
import { DEFAULT_LIMITS } from '../limits.js'
import type { ConfigFile } from '../schema.js'
import { parseSize } from '../units.js'
import type { Rule } from './broken.js'

const LEAST = { row_bytes: '1KiB', page_bytes: '64KiB', provider_bytes: '1MiB', memory: '16MiB' } as const

/** What is bounded by the first is part of what is bounded by the second. */
const PARTS = [
  ['row_bytes', 'page_bytes'],
  ['page_bytes', 'under_way'],
] as const

export function* limitRules({ limits }: ConfigFile): Rule {
  for (const [name, least] of Object.entries(LEAST)) {
    const set = limits?.[name as keyof typeof LEAST]
    if (set !== undefined && parseSize(set) < parseSize(least)) {
      yield { at: ['limits', name], expected: `a size of at least ${least}` }
    }
  }
  const all = { ...DEFAULT_LIMITS, ...limits }
  for (const [part, whole] of PARTS) {
    if (limits?.[part] === undefined && limits?.[whole] === undefined) continue
    if (parseSize(all[part]) <= parseSize(all[whole])) continue
    const at = limits[part] === undefined ? whole : part
    const expected =
      at === part
        ? `a size of at most limits.${whole}, which is ${all[whole]}`
        : `a size of at least limits.${part}, which is ${all[part]}`
    yield { at: ['limits', at], expected }
  }
}
