/**
 * Reads the response to one request out of server-sent events: out of the stream that answered and, where that broke
 * off, out of those that resume it. Remembers what resuming needs: the last event that came whole, and how long to wait.
 */
import { createParser } from 'eventsource-parser'
import type { Skimmed } from '../rows/skim.js'

const USABLE_ID = /^[\x21-\x7e]{1,1024}$/ // goes into a header as it came

export type EventStream = {
  /** A stream begins. Gives the reader of its chunks, which says whether the response has come. */
  begin(): (chunk: Uint8Array) => boolean
  /** The stream has ended. Gives the response, whichever stream it came in. */
  end(): Skimmed | undefined
  /** Where to go on; undefined when the stream cannot be resumed. */
  lastEventId(): string | undefined
  /** The wait that the server asked for, ms. */
  retryMs(): number | undefined
}

export function isEventStream(headers: Record<string, string>): boolean {
  return headers['content-type']?.includes('text/event-stream') ?? false
}

/** `readResponse` gives the response when a message is the one that is waited for. */
export function createEventStream(readResponse: (message: Uint8Array) => Skimmed | undefined): EventStream {
  let response: Skimmed | undefined
  let lastEventId: string | undefined
  let retryMs: number | undefined
  let finish = () => {}

  return {
    begin() {
      const decoder = new TextDecoder()
      let isWhole = true
      const parser = createParser({
        onEvent({ id, data }) {
          if (isWhole && id !== undefined) lastEventId = USABLE_ID.test(id) ? id : undefined
          response ??= readResponse(Buffer.from(data))
        },
        onRetry(ms) {
          retryMs = ms
        },
      })
      finish = () => {
        isWhole = false // half an event may be a whole response; it never is where to go on
        parser.feed('\n\n')
      }
      return (chunk) => {
        parser.feed(decoder.decode(chunk, { stream: true }))
        return response !== undefined // nothing behind it matters
      }
    },
    /** The last event may lack its closing blank line. */
    end() {
      finish()
      finish = () => {}
      return response
    },
    lastEventId: () => lastEventId,
    retryMs: () => retryMs,
  }
}
