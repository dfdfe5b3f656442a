import { test } from 'tap'

type Step = { name: string; outcome: 'passed' | 'failed' | 'skipped'; why?: string }
type Row = { part: string; release: string; transport: string; name: string; steps: Step[] }
type Part = { part: string; transport: string }
type Judge = (rows: Row[], excepted: Map<string, string>, expected: Part[]) => string[]

const JUDGE = new URL('../../../conformance/judge.js', import.meta.url)
const { judge } = (await import(JUDGE.href)) as { judge: Judge }

const EXPECTED = [{ part: 'storyboards', transport: 'mcp' }]
const KEY = '3.1 mcp baseline activate'

function row(...outcomes: Step['outcome'][]): Row {
  const steps = outcomes.map((outcome, number): Step => {
    return { name: number === 0 ? 'activate' : `step ${number}`, outcome, why: 'because' }
  })
  return { part: 'storyboards', release: '3.1', transport: 'mcp', name: 'baseline', steps }
}

test('a run holds when every failure is excepted', async (t) => {
  t.same(judge([row('passed', 'skipped')], new Map(), EXPECTED), [])
  t.same(judge([row('failed', 'passed')], new Map([[KEY, 'a reason']]), EXPECTED), [])
})

test('a failure that is not excepted is a fault, with its reason', async (t) => {
  t.same(judge([row('failed', 'passed')], new Map(), EXPECTED), [`${KEY}: because`])
})

test('an exception that passes, is skipped, or names nothing has to go', async (t) => {
  const excepted = new Map([[KEY, 'a reason']])
  t.match(judge([row('passed')], excepted, EXPECTED), [/it passes; remove the exception/])
  t.match(judge([row('skipped', 'passed')], excepted, EXPECTED), [/it is skipped; remove the exception/])
  const other = new Map([['3.1 mcp baseline no such step', 'a reason']])
  t.match(judge([row('passed')], other, EXPECTED), [/names no step that ran; remove the exception/])
})

test('a part that ran nothing is a fault: no row, a row without steps, nothing but skipped steps', async (t) => {
  t.match(judge([], new Map(), EXPECTED), [/storyboards over mcp: nothing ran/])
  t.match(judge([row()], new Map(), EXPECTED), [/no step at all/, /nothing ran/])
  t.match(judge([row('skipped')], new Map(), EXPECTED), [/nothing ran/])
})
