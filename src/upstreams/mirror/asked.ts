/**
 * Questions of buyers that find rows at an agent without a feed which no seed finds. They are asked again with the
 * seeds, so that these rows are in the feed (docs/decisions.md#what-buyers-ask). A few are kept, in memory only, and
 * sent only to the agent that was asked them before.
 */
const MOST = 20
const LONGEST = 500 // characters; a longer question is a brief, and nobody asks it again

/** Of one agent; empty. */
export function createAsked() {
  const questions = new Map<string, { isUseful: boolean }>()

  function makeRoom(): void {
    for (const [text, { isUseful }] of questions) {
      if (questions.size < MOST) return
      if (!isUseful) questions.delete(text)
    }
  }

  return {
    /** A question that the agent answered with rows. */
    note(text: string): void {
      if (text.length > LONGEST || questions.has(text)) return
      makeRoom()
      if (questions.size < MOST) questions.set(text, { isUseful: false })
    },
    questions: (): readonly string[] => [...questions.keys()],
    /** After these were asked behind the seeds: forgets those that failed or found nothing new. */
    learn(asked: readonly string[], barren: ReadonlySet<string>): void {
      for (const text of asked) {
        const question = questions.get(text)
        if (barren.has(text)) questions.delete(text)
        else if (question) question.isUseful = true
      }
    },
    clear: () => questions.clear(),
  }
}

export type QuestionsAsked = ReturnType<typeof createAsked>
