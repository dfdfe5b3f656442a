/** Counts turns of the event loop from now on: others are served in each of them. */
export function countTurns() {
  let turns = 0
  let isOver = false
  const count = () => {
    turns += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  return {
    soFar: () => turns,
    /** Ends the count, and gives it. */
    stop(): number {
      isOver = true
      return turns
    },
  }
}
