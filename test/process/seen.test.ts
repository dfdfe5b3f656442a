import { test } from 'tap'
import { createSeen } from '../../src/process/remembered.js'

test('a text is seen when it comes again, and then forgotten', (t) => {
  const isSeen = createSeen(1_024)
  t.same(
    [isSeen('one'), isSeen('another'), isSeen('one'), isSeen('one'), isSeen('one')],
    [false, false, true, false, true],
  )
  t.end()
})

test('texts that came long ago give way to others', (t) => {
  const isSeen = createSeen(8)
  t.equal(isSeen('one'), false)
  for (let n = 0; n < 1_000; n += 1) isSeen(`other ${n}`)
  t.equal(isSeen('one'), false)
  t.end()
})
