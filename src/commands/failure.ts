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
