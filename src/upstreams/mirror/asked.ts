/**
 * Questions of buyers that find, at an agent without a feed, what nobody else asks for. They are asked again with the seeds, so that
 * what they found is in the feed (docs/decisions.md#what-buyers-ask). Kept in memory, a few of them, and told to nobody but the
 * agent that was asked them before.
 */
const MOST = 20
const LONGEST = 500 // characters; a longer question is a brief, and finds nothing twice

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
    /** These were asked after the seeds: those that failed or found nothing new are forgotten. */
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
