import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { openStore } from '../../src/store/store.js'
import { callTool } from '../support/call-tool.js'
import { runCommand } from '../support/command.js'
import {
  actingOn,
  BUYER,
  digest,
  type Json,
  KEYS,
  OPERATOR,
  OTHER,
  read,
  startConsoleWorld,
} from './support/console-world.js'

const SECOND = 'second-operator-key-of-the-tests'
type Job = { id: string; kind: string; caller: string }

test('of the questions of two callers one is given up, and the audit says by whom', async (t) => {
  const world = await startConsoleWorld([
    ...KEYS,
    { id: 'night', token_sha256: digest(SECOND), role: 'operator' },
  ])
  t.teardown(() => world.close())
  const { url } = world.federation
  const jobs = async () => (await read(url, 'jobs', OPERATOR)).body.jobs as Job[]
  const audit = async () => (await read(url, 'audit', OPERATOR)).body.entries as Json[]
  const act = actingOn(url)
  const store = await openStore({
    ...{ url: `file:${world.folder}`, now: Date.now, whileInUse: true },
    onProblem: (problem) => t.fail(problem),
  })
  const input = { signal_spec: 'people who buy cars' }
  /** As a process leaves it that died, or lost its storage, while it worked on the answer. */
  async function left(caller: string): Promise<string> {
    const id = `task_${randomUUID()}`
    const reader = { caller, visibility: 'full', grants: [] }
    const data = { input, reader, contextId: 'ctx', upstreamTasks: {} }
    await store.write(async ({ tasks, jobs: open }) => {
      await tasks.create({
        ...{ id, caller, type: 'get_signals', status: 'submitted', request: input, webhook: false },
      })
      await open.add({ id, kind: 'question', lane: caller, caller, data, afterMs: 3_600_000 })
    })
    return id
  }
  const questions = async () => (await jobs()).filter(({ kind }) => kind === 'question')
  const given = await left('buyer')
  const kept = await left('other')
  await store.close()
  const status = async (task_id: string, key: string) =>
    await callTool<Json>(url, 'get_task_status', { task_id, include_result: true }, key)

  t.same(
    (await questions()).map(({ id, caller }) => [id, caller]).sort(),
    [
      [given, 'buyer'],
      [kept, 'other'],
    ].sort(),
  )
  t.equal((await act('give-up-job', given, OTHER)).status, 403)
  const command = await runCommand(['give-up', given, '--url', url, '--token', SECOND])
  t.match(command, { code: 0, out: `${given}: given up\n` })
  t.match(await status(given, BUYER), { status: 'failed', error: { code: 'SERVICE_UNAVAILABLE' } })
  t.match(await status(kept, OTHER), { status: 'submitted' })
  t.same(
    (await questions()).map(({ id }) => id),
    [kept],
  )
  const listed = await runCommand(['audit', '--url', url, '--token', OPERATOR])
  t.match(listed.out, new RegExp(`Z {2}night {2}give-up-job {2}${given} {2}done`))
  t.equal((await act('give-up-job', kept)).status, 200)
  t.match((await audit())[0], { who: 'op', action: 'give-up-job', subject: kept, outcome: 'done' })
})
