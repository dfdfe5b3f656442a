import type { Send } from '../../src/net/send.js'

/** For servers that ask nobody. */
export const noWayOut: Send = async () => {
  throw new Error('this server has no way out')
}
