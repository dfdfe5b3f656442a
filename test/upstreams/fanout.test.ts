import { test } from 'tap'
import type { Clock } from '../../src/net/clock.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import type { Asked } from '../../src/upstreams/asker.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import { briefAnswer } from '../support/upstream-answers.js'
import { row, until } from '../support/upstream-world.js'

type Call = { agentUrl: string; aborted: () => boolean; answer: (outcome: AgentOutcome) => void }

/** A clock that goes only when told, and upstreams that answer only when told. */
function stage() {
  let now = 1_000_000
  const timers = new Set<{ at: number; task: () => void }>()
  const clock: Clock = {
    now: () => now,
    after(ms, task) {
      const timer = { at: now + ms, task }
      timers.add(timer)
      return () => timers.delete(timer)
    },
  }
  const calls: Call[] = []
  const fanout = createFanout({
    clock,
    call: ({ agentUrl }, _task, _args, { signal }) =>
      new Promise((answer) => calls.push({ agentUrl, answer, aborted: () => signal?.aborted ?? false })),
  })
  function pass(ms: number): void {
    now += ms
    for (const timer of [...timers].filter(({ at }) => at <= now)) {
      timers.delete(timer)
      timer.task()
    }
  }
  return { clock, fanout, calls, pass }
}

const urlOf = (name: string) => `https://${name}.example/mcp`
const asked = (name: string): Asked => ({ agentUrl: urlOf(name), args: {}, scope: 'public' })
const found = (...rows: object[]): AgentOutcome => briefAnswer(rows)
const isDone = async (promise: Promise<void>) => {
  let done = false
  promise.then(() => {
    done = true
  })
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
  return done
}

test('it is over when the last has answered, not at the deadline', async (t) => {
  const { fanout, calls, clock } = stage()
  const { answers, settled } = fanout.ask({
    key: 'q',
    asked: [asked('a'), asked('b')],
    deadline: clock.now() + 9_000,
  })
  const over = settled()
  calls[0]?.answer(found(row(1), row(2)))
  t.notOk(await isDone(over), 'b may still answer')
  calls[1]?.answer({ kind: 'failed', reason: 'unreachable', message: '' })
  t.ok(await isDone(over))
  t.match(answers().get(urlOf('a')), { kind: 'answered' })
  const a = answers().get(urlOf('a'))
  t.equal(a?.kind === 'answered' && a.slice.rows.count, 2)
  t.match(answers().get(urlOf('b')), { kind: 'failed', reason: 'unreachable' })
})

test('at the deadline it is over whoever has not answered; the late answer serves the next question', async (t) => {
  const { fanout, calls, clock, pass } = stage()
  const question = () => ({ key: 'q', asked: [asked('slow')], deadline: clock.now() + 1_000 })
  const first = fanout.ask(question())
  const over = first.settled()
  pass(1_000)
  t.ok(await isDone(over))
  t.match(first.answers().get(urlOf('slow')), { kind: 'pending' })
  pass(2_000)
  calls[0]?.answer(found(row(1)))
  await until('the late answer is read', () => first.answers().get(urlOf('slow'))?.kind === 'answered')
  const again = fanout.ask(question())
  t.match(again.answers().get(urlOf('slow')), { kind: 'answered' })
  t.equal(calls.length, 1, 'nobody is asked twice')
})

test('identical questions at one time share one call; another question does not', async (t) => {
  const { fanout, calls, clock } = stage()
  const deadline = clock.now() + 5_000
  fanout.ask({ key: 'q', asked: [asked('a')], deadline })
  fanout.ask({ key: 'q', asked: [asked('a')], deadline })
  t.equal(calls.length, 1)
  fanout.ask({ key: 'of another account', asked: [asked('a')], deadline })
  t.equal(calls.length, 2)
})

test('a failure is asked again, but not at once', async (t) => {
  const { fanout, calls, clock, pass } = stage()
  const ask = () => fanout.ask({ key: 'q', asked: [asked('a')], deadline: clock.now() + 1_000 })
  const { answers } = ask()
  calls[0]?.answer({ kind: 'failed', reason: 'server_error', message: '' })
  await until('it failed', () => answers().get(urlOf('a'))?.kind === 'failed')
  ask()
  t.equal(calls.length, 1)
  pass(6_000)
  ask()
  t.equal(calls.length, 2)
})

test('what usually takes longer than the time given is not asked; with more time it is', async (t) => {
  const { fanout, calls, clock, pass } = stage()
  for (let round = 0; round < 4; round += 1) {
    const { answers } = fanout.ask({
      key: `q${round}`,
      asked: [asked('slow')],
      deadline: clock.now() + 60_000,
    })
    pass(4_000)
    calls[round]?.answer(found())
    await until('it answered', () => answers().get(urlOf('slow'))?.kind === 'answered')
  }
  const hurried = fanout.ask({ key: 'hurry', asked: [asked('slow')], deadline: clock.now() + 1_000 })
  t.match(hurried.answers().get(urlOf('slow')), { kind: 'not_asked', reason: 'no_time', typicalMs: 4_000 })
  t.equal(calls.length, 4)
  fanout.ask({ key: 'hurry', asked: [asked('slow')], deadline: clock.now() + 10_000 })
  t.equal(calls.length, 5)
})

/** An upstream that has answered four times within 200 ms, and has a fifth question for long. */
async function overdue() {
  const { fanout, calls, clock, pass } = stage()
  for (let round = 0; round < 4; round += 1) {
    const { answers } = fanout.ask({ key: `q${round}`, asked: [asked('a')], deadline: clock.now() + 10_000 })
    pass(200)
    calls[round]?.answer(found())
    await until('it answered', () => answers().get(urlOf('a'))?.kind === 'answered')
  }
  const { answers } = fanout.ask({ key: 'stuck', asked: [asked('a')], deadline: clock.now() + 10_000 })
  return { calls, pass, answer: () => answers().get(urlOf('a')) }
}

test('one that is overdue by far is asked a second time, and the first to answer counts', async (t) => {
  const { calls, pass, answer } = await overdue()
  pass(500)
  t.equal(calls.length, 5)
  pass(200)
  t.equal(calls.length, 6, 'asked again after three times the usual')
  calls[5]?.answer(found(row(1)))
  await until('it answered', () => answer()?.kind === 'answered')
  pass(5_000)
  t.equal(calls.length, 6, 'never a third time')
})

test('a second request that fails says nothing about the first', async (t) => {
  const { calls, pass, answer } = await overdue()
  pass(700)
  calls[5]?.answer({ kind: 'failed', reason: 'unreachable', message: 'no connection' })
  await new Promise(setImmediate)
  t.not(answer()?.kind, 'failed')
  calls[4]?.answer(found(row(1)))
  await until('it answered', () => answer()?.kind === 'answered')
})

test('a hung upstream gets a bounded number of questions; the others wait, and are busy when it is too late', async (t) => {
  const { fanout, calls, clock, pass } = stage()
  const questions = Array.from({ length: 20 }, (_, n) =>
    fanout.ask({ key: `q${n}`, asked: [asked('hung')], deadline: clock.now() + 1_000 }),
  )
  const last = questions.at(-1)
  t.equal(calls.length, 8)
  t.match(last?.answers().get(urlOf('hung')), { kind: 'pending' })
  pass(1_000)
  for (const call of calls) call.answer({ kind: 'failed', reason: 'timeout', message: '' })
  await until('the others are told', () => last?.answers().get(urlOf('hung'))?.kind === 'not_asked')
  t.match(last?.answers().get(urlOf('hung')), { kind: 'not_asked', reason: 'busy' })
  t.equal(calls.length, 8)
})

test('many questions at once are all answered by an agent that takes them in turn', async (t) => {
  const { fanout, calls, clock } = stage()
  const questions = Array.from({ length: 24 }, (_, n) =>
    fanout.ask({ key: `q${n}`, asked: [asked('a')], deadline: clock.now() + 10_000 }),
  )
  for (let answered = 0; answered < 24; answered += 1) {
    await until('the next one is asked', () => calls.length > answered)
    calls[answered]?.answer(found(row(1)))
  }
  await until('all are answered', () =>
    questions.every(({ answers }) => answers().get(urlOf('a'))?.kind === 'answered'),
  )
  t.equal(calls.length, 24)
})

test('a question whose turn comes late is asked for the one that has the time', async (t) => {
  const { fanout, calls, clock, pass } = stage()
  for (let n = 0; n < 8; n += 1) {
    fanout.ask({ key: `q${n}`, asked: [asked('a')], deadline: clock.now() + 1_000 })
  }
  const hasty = fanout.ask({ key: 'same', asked: [asked('a')], deadline: clock.now() + 1_000 })
  fanout.ask({ key: 'same', asked: [asked('a')], deadline: clock.now() + 600_000 }) // as one that is answered later
  pass(2_000)
  calls[0]?.answer(found(row(1)))
  await until('it is asked', () => calls.length === 9)
  calls[8]?.answer(found(row(1)))
  await until('it is answered', () => hasty.answers().get(urlOf('a'))?.kind === 'answered')
  t.end()
})

test('answers are kept for whoever asks the same, within 64 MiB, and without those that are waited for', async (t) => {
  const { fanout, calls, clock } = stage()
  const deadline = clock.now() + 60_000
  const platforms = Array.from({ length: 1_000 }, (_, n) => `${n}`.padEnd(180, 'p'))
  const deployments = platforms.map((platform) => ({ type: 'platform', platform, is_live: true }))
  const large = found(...Array.from({ length: 80 }, (_, n) => row(n, { deployments })))
  const ask = (key: string, ...ids: string[]) => fanout.ask({ key, asked: ids.map(asked), deadline })
  const answer = async (key: string) => {
    const { answers } = ask(key, 'a')
    calls.at(-1)?.answer(large)
    await until('it answered', () => answers().get(urlOf('a'))?.kind === 'answered')
  }

  const waited = ask('waited for', 'a', 'slow')
  const over = waited.settled()
  calls[0]?.answer(large)
  for (const key of ['q0', 'q1', 'q2', 'q3']) await answer(key)
  t.notOk(calls[1]?.aborted(), 'somebody waits for it')
  t.match(waited.answers().get(urlOf('a')), { kind: 'answered' })
  const before = calls.length
  ask('waited for', 'a', 'slow')
  ask('q3', 'a')
  t.equal(calls.length, before, 'what was asked last is kept')
  ask('q0', 'a')
  t.equal(calls.length, before + 1, 'what was asked first is not')
  calls[1]?.answer(found(row(1)))
  t.ok(await isDone(over))
})

test('closing gives up what is under way', async (t) => {
  const { fanout, calls, clock } = stage()
  fanout.ask({ key: 'q', asked: [asked('a')], deadline: clock.now() + 1_000 })
  fanout.close()
  t.ok(calls[0]?.aborted())
})
