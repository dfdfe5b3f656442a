/** Complete readings, whatever a token says: needed when a page contradicts its token, or when an operator asks. */
import type { MirrorOutcome } from './mirror.js'
import type { Key } from './scope-setting.js'
import type { SliceStore } from './slice-store.js'

type WholeReadingOptions = {
  store: Pick<SliceStore, 'distrust' | 'trust'>
  key(): Key
}

/** A request stands until a reading has succeeded that began after it, in this process or another. */
export function createWholeReading({ store, key }: WholeReadingOptions) {
  let calls = 0
  let answered = 0

  function call(): void {
    calls += 1
    store.distrust(key())
  }

  /** Runs one reading; `refresh` is told whether it must be complete. */
  async function read(refresh: (whole: boolean) => Promise<MirrorOutcome>): Promise<MirrorOutcome> {
    const known = calls
    const outcome = await refresh(known > answered)
    if (outcome.kind === 'failed') {
      if (outcome.contradicted) call()
      return outcome
    }
    answered = known
    if (answered === calls) store.trust(key())
    return outcome
  }

  return { call, read }
}
