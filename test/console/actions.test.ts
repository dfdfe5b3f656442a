import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import Database from 'libsql'
import { test } from 'tap'
import { MAIN } from '../support/program.js'
import { actingOn, BUYER, OPERATOR, OTHER, read, startConsoleWorld } from './support/console-world.js'

const NORTHWIND = 'signals.northwind.example'

test('what operators do takes effect at once, and is written down', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { federation } = world
  const { url } = federation
  const act = actingOn(url)
  const entries = async () => (await read(url, 'audit', OPERATOR)).body.entries as Record<string, string>[]
  const sellers = async () => {
    const { body } = await read(url, 'facets', OPERATOR)
    return (body.facets as { upstream: { value: string }[] }).upstream.map(({ value }) => value)
  }
  /** Until the feed has followed. */
  async function until(holds: () => Promise<boolean>): Promise<void> {
    for (const end = Date.now() + 60_000; Date.now() < end; await wait(20)) if (await holds()) return
    t.fail('the feed did not follow within a minute')
  }

  await t.test('a buyer can do nothing, and sees no log', async (t) => {
    t.equal((await act('exclude-upstream', NORTHWIND, BUYER)).status, 403)
    t.equal((await read(url, 'audit', BUYER)).status, 403)
    t.same(await entries(), [])
  })

  await t.test('an upstream is read again, a provider fetched', async (t) => {
    t.same((await act('refresh-upstream', NORTHWIND)).body, {
      action: 'refresh-upstream',
      subject: NORTHWIND,
    })
    t.equal((await act('refresh-provider', 'motorledger.example')).status, 200)
    t.match(await entries(), [
      { who: 'op', action: 'refresh-provider', subject: 'motorledger.example', outcome: 'done' },
      { who: 'op', action: 'refresh-upstream', subject: NORTHWIND, outcome: 'done' },
    ])
    const old = await fetch(`${url}/refresh?upstream=${NORTHWIND}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATOR}` },
    })
    t.equal(old.status, 202)
    t.equal((await entries()).length, 3, 'by its older path too')
  })

  await t.test('what has no such name is said to have none', async (t) => {
    for (const [action, subject] of [
      ['refresh-upstream', 'nobody'],
      ['refresh-provider', 'nobody.example'],
      ['exclude-upstream', 'https://nobody.example/mcp'],
      ['suspend-caller', 'nobody'],
    ] as const) {
      t.equal((await act(action, subject)).status, 404, action)
    }
    t.equal((await act('reboot', 'x')).body.parameter, 'action')
    t.equal((await act('refresh-upstream', '')).body.parameter, 'subject')
    t.equal((await act('suspend-caller', 'op')).status, 409, 'not itself')
    t.match(await entries(), [{ outcome: 'nobody suspends itself' }, { outcome: 'unknown' }])
  })

  await t.test('an upstream is left out and let in again', async (t) => {
    const { body } = await act('exclude-upstream', NORTHWIND)
    t.equal(body.until, 'reload')
    await until(async () => !(await sellers()).includes(NORTHWIND))
    const shown = await read(url, 'upstreams', OPERATOR)
    const excluded = shown.body.excluded as { url: string }[]
    const agent = excluded.find((one) => one.url.includes(NORTHWIND))
    const others = (await read(url, 'upstreams?q=no-such-agent', OPERATOR)).body
    t.match(
      others,
      { total: 0, excluded: [], excluded_total: 0 },
      'only those are counted that are asked for',
    )
    t.ok(agent)
    const admitted = await act('admit-upstream', agent?.url ?? '')
    t.equal(admitted.status, 200)
    t.equal(admitted.body.until, undefined, 'the configuration does not leave it out')
    await until(async () => (await sellers()).includes(NORTHWIND))
    await act('exclude-upstream', NORTHWIND)
    await until(async () => !(await sellers()).includes(NORTHWIND))
    t.equal((await act('admit-upstream', NORTHWIND)).status, 200, 'under the name that it was left out by')
    await until(async () => (await sellers()).includes(NORTHWIND))
  })

  await t.test('a caller is suspended with all its sessions, and resumed', async (t) => {
    const status = async () => (await read(url, 'signals?limit=1', OTHER)).status
    t.equal(await status(), 200)
    const [row] = (await read(url, 'signals?limit=1', OTHER)).body.signals as Record<string, string>[]
    const explained = async () => {
      const asked = new URLSearchParams({ ref: row?.signal_agent_segment_id ?? '', caller: 'other' })
      const headers = { authorization: `Bearer ${OPERATOR}` }
      return (await fetch(`${url}/explain?${asked}`, { headers })).json()
    }
    t.match(await explained(), { reason: 'present', view: { access: 'full' } })
    t.equal((await act('suspend-caller', 'other')).body.until, 'reload')
    t.equal(await status(), 401)
    const hidden = { reason: 'hidden_from_caller', detail: 'suspended', view: { access: 'none' } }
    t.match(await explained(), hidden)
    const { callers } = (await read(url, 'callers', OPERATOR)).body as {
      callers: { id: string; suspended: boolean }[]
    }
    t.match(
      callers.find(({ id }) => id === 'other'),
      { suspended: true },
    )
    t.equal((await act('resume-caller', 'other')).body.until, undefined)
    t.equal(await status(), 200)
  })

  await t.test(
    'what buyers activated is listed, with what came of it and nothing that opens a door',
    async (t) => {
      const rows = (await world.walk({}, BUYER)).flatMap(({ signals = [] }) => signals)
      const open = (where: string) => where.startsWith('platform:') && !where.includes('#')
      const [found] = rows.flatMap((row) =>
        row.ext.tributary.offers
          .filter(({ deployments }) => deployments.some(open))
          .map((offer) => ({ row, offer })),
      )
      const { handle = '', deployments = [] } = found?.offer ?? {}
      const option = found?.row.pricing_options?.find((one) => one.pricing_option_id.startsWith(handle))
      const platform = deployments.find(open)?.replace('platform:', '')
      const input = {
        signal_agent_segment_id: handle,
        destinations: [{ type: 'platform', platform }],
        pricing_option_id: option?.pricing_option_id,
        idempotency_key: 'a-key-of-the-test-0001',
      }
      const answer = await world.call('activate_signal', input, BUYER)
      t.notOk(answer.adcp_error, JSON.stringify(answer.adcp_error))
      const { body, text } = await read(url, 'activity', OPERATOR)
      t.match(body.activations, [
        { caller: 'buyer', action: 'activate', handle, upstream: found?.offer.upstream },
      ])
      t.notMatch(text, /activation_key|segment_id|a-key-of-the-test/)
      t.equal((await read(url, 'activity', BUYER)).status, 403)
    },
  )

  await t.test('what cannot be written down is not done, and is told so', async (t) => {
    const before = await entries()
    const full = new Database(join(world.folder, 'tributary.db'))
    t.teardown(() => full.close())
    full.exec('begin exclusive') // nobody else writes
    const run = promisify(execFile)
    const given = ['suspend', 'other', '--url', url, '--token', OPERATOR]
    const command = run(process.execPath, [MAIN, ...given]).catch((error: { stderr: string }) => error.stderr)
    const [suspended, excluded, unknown, itself, refreshed] = await Promise.all([
      act('suspend-caller', 'other'),
      act('exclude-upstream', NORTHWIND),
      act('suspend-caller', 'nobody'),
      act('suspend-caller', 'op'),
      fetch(`${url}/refresh?upstream=${NORTHWIND}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${OPERATOR}` },
      }),
    ])
    const told = 'The storage cannot serve just now'
    for (const refused of [suspended, excluded]) {
      t.match(refused, { status: 503, body: { error: told } })
      t.match(refused.headers.get('retry-after'), /^\d+$/)
    }
    t.equal(refreshed.status, 503)
    t.same([unknown.status, itself.status], [404, 409], 'it would be the same with a storage')
    t.equal(await command, `tributary: ${told}\n`)
    full.exec('rollback')
    t.equal((await act('retry-job', 'nothing')).status, 404)
    t.equal((await entries()).length, before.length + 1, 'of what was tried since, only the last one')
    t.equal((await read(url, 'signals?limit=1', OTHER)).status, 200, 'the caller is not suspended')
    t.ok((await sellers()).includes(NORTHWIND))
  })

  await t.test('commands do the same', async (t) => {
    const run = promisify(execFile)
    const command = async (...given: string[]) =>
      (await run(process.execPath, [MAIN, ...given, '--url', url, '--token', OPERATOR])).stdout
    t.equal(await command('suspend', 'other'), 'other: suspended, until the configuration is read again\n')
    t.equal(await command('resume', 'other'), 'other: resumed\n')
    t.match(
      await command('audit'),
      /^\S+Z {2}op {2}resume-caller {2}other {2}done\n\S+Z {2}op {2}suspend-caller/,
    )
    await t.rejects(command('exclude', 'nobody'), /nothing has this name/)
  })
})
