/** In which order the parts of a file are read: as they stand there, but first those that somebody waits for. */

/** `atOnce`: so many are read at a time. */
export function createReadingOrder(atOnce: number) {
  const due: (() => Promise<void>)[] = []
  let underWay = 0

  function next(): void {
    const read = underWay < atOnce ? due.shift() : undefined
    if (!read) return
    underWay += 1
    void read().then(() => {
      underWay -= 1
      next()
    })
  }

  return {
    /** `hasten` puts it before all that are not begun. */
    add<T>(read: () => Promise<T>): { done: Promise<T>; hasten(): void } {
      let begin = async () => {}
      const done = new Promise<T>((resolve, reject) => {
        begin = () => read().then(resolve, reject)
      })
      due.push(begin)
      next()
      return {
        done,
        hasten() {
          const at = due.indexOf(begin)
          if (at > 0) due.unshift(...due.splice(at, 1))
        },
      }
    },
  }
}
