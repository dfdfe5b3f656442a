import { dirname } from 'node:path'
import { test } from 'tap'
import { sourceFiles, textOf } from './support/graph.js'

const LONGEST = 400
const SHORTEST = 30
const MOST_IN_FOLDER = 15

const linesOf = (file: string) => textOf(file).split('\n').length - 1

test('a source file is one noun: none is longer than 400 lines', async (t) => {
  t.same(
    sourceFiles().filter((file) => linesOf(file) > LONGEST),
    [],
  )
})

test('a file of its own is worth opening: none is shorter than 30 lines', async (t) => {
  t.same(
    sourceFiles().filter((file) => linesOf(file) < SHORTEST),
    [],
  )
})

test('a folder is seen at a glance: none has more than 15 files', async (t) => {
  const counts = new Map<string, number>()
  for (const file of sourceFiles()) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
  t.same(
    [...counts].filter(([, count]) => count > MOST_IN_FOLDER),
    [],
  )
})
