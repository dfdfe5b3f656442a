/** What the loader says of a configuration that it refuses: the whole message, as an operator reads it. */
import { ConfigError, parseConfig } from '../../src/config/load.js'

/** `accepted` where it has nothing to say. */
export function messageOf(text: string, environment: Readonly<Record<string, string>> = {}): string {
  try {
    parseConfig('tributary.yaml', text, environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return 'accepted'
}
