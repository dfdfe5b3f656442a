/** Rules on sizes: bounds so small that nothing could pass them. */
import type { ConfigFile } from '../schema.js'
import { sizeBytes } from '../units.js'
import type { Rule } from './broken.js'

const LEAST = { row_bytes: '1KiB', page_bytes: '64KiB', provider_bytes: '1MiB', memory: '16MiB' } as const

export function* limitRules({ limits }: ConfigFile): Rule {
  for (const [name, least] of Object.entries(LEAST)) {
    const set = limits?.[name as keyof typeof LEAST]
    if (set !== undefined && sizeBytes(set) < sizeBytes(least)) {
      yield { at: ['limits', name], expected: `a size of at least ${least}` }
    }
  }
}
