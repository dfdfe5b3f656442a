/** Exit codes (docs/operations.md) and the one way a command ends badly: a sentence that says what to do next. */
export const EXIT = { failed: 1, usage: 2, config: 3, incomplete: 4 } as const

/** A failure whose message is for the person at the terminal; anything else that is thrown is a bug. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly exitCode: number = EXIT.failed,
  ) {
    super(message)
    this.name = 'CommandFailure'
  }
}

/** One line on a terminal that says how far a long command is; silent where there is no terminal. */
export type Progress = { show(text: string): void; done(): void }

const REDRAW_MS = 100

/** Draws at most every 100 ms. */
export function createProgress(stream: NodeJS.WriteStream, now: () => number): Progress {
  if (!stream.isTTY) return { show: () => {}, done: () => {} }
  let drawnAt = Number.NEGATIVE_INFINITY
  return {
    show(text) {
      if (now() - drawnAt < REDRAW_MS) return
      drawnAt = now()
      stream.write(`\r\u001b[K${text.slice(0, (stream.columns || 80) - 1)}`)
    },
    done() {
      stream.write('\r\u001b[K')
    },
  }
}
