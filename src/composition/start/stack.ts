/**
 * What was started, to be stopped in the opposite order: each part before those that it stands on. One that cannot be
 * stopped keeps none of the others from being.
 */

type Part = { close(): unknown }

export function createStack() {
  const parts: Part[] = []

  /** What went wrong, if anything did. */
  async function stopped(part: Part): Promise<unknown[]> {
    try {
      await part.close()
      return []
    } catch (error) {
      return [error]
    }
  }

  return {
    /** Gives the part back. */
    add<T extends Part>(part: T): T {
      parts.push(part)
      return part
    },
    /** Throws when all are stopped, if one of them failed: what the first of them threw. */
    async close(): Promise<void> {
      const errors: unknown[] = []
      for (const part of parts.splice(0).reverse()) errors.push(...(await stopped(part)))
      if (errors.length > 0) throw errors[0]
    },
  }
}

export type Stack = ReturnType<typeof createStack>
