/** One line on a terminal that says how far a long command is; silent where there is no terminal. */
export type Progress = { show(text: string): void; done(): void }

const REDRAW_MS = 100

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
