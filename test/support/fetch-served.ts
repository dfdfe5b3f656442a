/** A request to a server of ours that is asked again where a busy machine made the server turn everybody away for a moment. */
import { setTimeout as wait } from 'node:timers/promises'

const LIMIT_MS = 60_000
const BUSY = 'Too much is going on.'

/** The first answer that is no refusal for want of time, or the last refusal after a minute. */
export async function fetchServed(url: string, init: RequestInit): Promise<Response> {
  for (const end = Date.now() + LIMIT_MS; ; ) {
    const response = await fetch(url, init)
    const isBusy = response.status === 503 && (await response.clone().text()).includes(BUSY)
    if (!isBusy || Date.now() > end) return response
    await wait(1_000 * Number(response.headers.get('retry-after')))
  }
}
