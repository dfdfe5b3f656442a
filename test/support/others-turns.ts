/** How processes share a storage, for one that takes no part: every turn is somebody else's, and nothing is told or heard. */
import type { Sharing } from '../../src/upstreams/rows/storage.js'

/** A test says what is different of its own. */
export const OTHERS_TURNS: Sharing = {
  want() {},
  lead() {},
  isNewest: () => true,
  forms: () => new Set(),
  turn: () => undefined,
  onTurns() {},
  pass: async () => {},
  tell: async () => true,
  keep: async () => {},
  hear() {},
  heard: async () => true,
  write: async () => false,
  remove: async () => {},
  freed: async () => [],
}
