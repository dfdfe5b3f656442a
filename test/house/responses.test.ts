import { test } from 'tap'
import { sourceFiles, textOf } from './support/graph.js'

/** Whoever listens to a response that is over already hears nothing, and what it keeps for that response stays. */
test('the end of a response is heard by one function, which knows of those that are over already', async (t) => {
  const listening = /\b(response|reply\.raw)\s*\.(on|once)\('(close|finish)'/
  const files = sourceFiles().filter((file) => listening.test(textOf(file)))
  t.same(files, ['server/answer/connection.ts'], 'elsewhere: whenOver')
})
