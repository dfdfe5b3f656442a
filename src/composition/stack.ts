/** What was started, to be stopped in the opposite order. */
export function createStack() {
  const closers: (() => void | Promise<void>)[] = []
  return {
    add<T extends { close(): unknown }>(part: T): T {
      closers.push(async () => void (await part.close()))
      return part
    },
    async close(): Promise<void> {
      for (const close of closers.splice(0).reverse()) await close()
    },
  }
}

export type Stack = ReturnType<typeof createStack>
