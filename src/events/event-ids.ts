/**
 * Ids of feed events: UUIDs of version 7 (RFC 9562, section 5.7), each above every earlier one of this process, so that a
 * receiver can put events in order by their ids (schema core/wholesale-feed-event).
 */
import { randomBytes } from 'node:crypto'

const COUNTER_BITS = 12

/** `now` in ms. */
export function createEventIds(now: () => number) {
  let last = 0 // milliseconds and counter as one number, which is exact until the year 2039
  return (): string => {
    last = Math.max(last + 1, now() * 2 ** COUNTER_BITS)
    const time = Math.floor(last / 2 ** COUNTER_BITS)
      .toString(16)
      .padStart(12, '0')
    const counter = (last % 2 ** COUNTER_BITS).toString(16).padStart(3, '0')
    const random = randomBytes(8)
    random[0] = ((random[0] as number) & 0x3f) | 0x80
    const tail = random.toString('hex')
    return `${time.slice(0, 8)}-${time.slice(8)}-7${counter}-${tail.slice(0, 4)}-${tail.slice(4)}`
  }
}

export type EventIds = ReturnType<typeof createEventIds>
