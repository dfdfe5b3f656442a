import { generateKeyPairSync } from 'node:crypto'
import { type Test, test } from 'tap'
import { createRegistrations } from '../../src/events/registrations.js'
import { AGENT, listening } from './support/listeners.js'

const [SECOND, HOUR] = [1_000, 3_600_000]

/** One process, which has asked. */
async function stage(t: Test) {
  const { start, send, ...rest } = listening(t)
  const { listener, become } = start()
  await rest.pass(0)
  const sent = (...args: Parameters<typeof send> extends [unknown, ...infer Rest] ? Rest : never) =>
    send(listener, ...args)
  return { ...rest, listener, become, send: sent }
}

test('a subscription is renewed every hour', async (t) => {
  const { said, pass, answer } = await stage(t)
  t.equal(said.length, 1)
  await answer()
  await pass(HOUR - 2 * SECOND)
  t.equal(said.length, 1)
  await pass(2 * SECOND)
  t.equal(said.length, 2)
  t.same(said[1]?.configs, said[0]?.configs)
})

test('subscribing is tried again after a wait that varies', async (t) => {
  const { far, said, pass, answer } = await stage(t)
  for (const chance of [0, 0.5, 1]) {
    far.chance = chance
    const asked = said.length
    await answer({ action: 'failed' })
    const waited = async () => {
      for (let seconds = 1; ; seconds += 1) {
        await pass(SECOND)
        if (said.length > asked) return seconds
      }
    }
    t.equal(await waited(), { 0: 5, 0.5: 10, 1: 22 }[chance], `doubled from 5 s, and ${chance} of the jitter`)
  }
})

test('why an upstream does not tell is said once', async (t) => {
  const { said, problems, pass, answer } = await stage(t)
  await answer({ action: 'failed' })
  await pass(5 * SECOND)
  t.equal(said.length, 2)
  await answer({ action: 'failed' })
  t.same(problems, ['far does not tell us of changes, it is read on schedule: it did not accept us'])
})

test('only an upstream that has left is unsubscribed from, after it has answered, and once', async (t) => {
  const { said, problems, pass, answer, become, listener } = await stage(t)
  const path = new URL(said[0]?.configs[0]?.url ?? '').pathname.split('/').at(-1) ?? ''
  const status = async () =>
    (await listener.receive({ token: path, headers: {}, body: new Uint8Array(), from: '' })).status
  await answer()
  become('unknown')
  await pass(SECOND)
  t.equal(said.length, 1, 'what is not known for a moment is no reason to leave')
  t.equal(await status(), 401, 'and it is listened to')
  become('declares')
  await pass(HOUR)
  t.equal(said.length, 2, 'renewed, and not answered yet')
  become('left')
  await pass(SECOND)
  t.equal(await status(), 410)
  t.equal(said.length, 2)
  await answer()
  t.same(said[2]?.configs, [], 'it is told once it has answered')
  t.equal(said[2]?.patience, 10 * SECOND)
  become('declares')
  await pass(SECOND)
  t.equal(said.length, 3, 'one that comes back waits for that answer')
  await answer()
  await pass(SECOND)
  t.equal(said[3]?.configs.length, 1)
  await answer()
  become('left')
  await pass(SECOND)
  await answer({ action: 'failed' })
  await pass(HOUR)
  t.equal(said.length, 5, 'one try')
  t.match(problems, [/far has left and could not be told so/])
})

test('an upstream that has another account for us since is subscribed at again', async (t) => {
  const { pass, answer, key, send } = await stage(t)
  const challenge = {
    ...{ type: 'webhook.challenge', challenge: 'c'.repeat(32), seller_agent_url: AGENT, account_id: 'new' },
    ...{ delivery_auth: { mode: 'rfc9421' }, event_types: ['signal.updated'] },
  }
  await answer()
  t.equal((await send('a', key, challenge)).status, 403, 'nobody asked for it')
  t.equal((await send('a', key, { account_id: 'new' })).status, 403)
  await pass(HOUR)
  t.match(await send('a', key, challenge), { status: 200, body: { challenge: challenge.challenge } })
  await answer({ account_id: 'new' })
  t.equal((await send('a', key, { account_id: 'new' })).status, 200)
  t.equal((await send('a')).status, 403, 'what it called us before')
  await pass(HOUR)
  await answer({ action: 'failed' })
  t.equal((await send('a', key, { account_id: 'new' })).status, 200, 'its old list stands where it refuses')
  t.equal((await send('a')).status, 403)
})

test('an upstream that leaves before it has answered the first time is unsubscribed from, too', async (t) => {
  const { said, pass, answer, become } = await stage(t)
  become('left')
  await pass(SECOND)
  t.equal(said.length, 1)
  await answer()
  t.same(said[1]?.configs, [])
})

test('what is refused of one sender is bounded in time, and costs no other sender anything', async (t) => {
  const { outcomes, pass, answer, key, send } = await stage(t)
  await answer()
  const forger = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  for (let sent = 0; sent < 50; sent += 1) t.equal((await send('a', forger)).status, 401)
  t.same(await send('a', forger), { status: 429, headers: { 'retry-after': '1' } })
  t.equal((await send('a')).status, 429, 'nothing of it is looked at')
  for (let sent = 0; sent < 60; sent += 1) t.equal((await send('b')).status, 200)
  await pass(SECOND)
  t.equal((await send('a')).status, 200)

  let lookedAt = 0
  for (let sent = 0; sent < 300; sent += 1)
    lookedAt += (await send(`of many ${sent}`, forger)).status === 401 ? 1 : 0
  t.ok(lookedAt >= 150 && lookedAt <= 200, `${lookedAt} of 300, each from another address`)
  t.equal((await send('c')).status, 429, 'an address that nothing true came from has to wait')
  t.equal((await send('b')).status, 200, 'one that is known has not')
  await pass(SECOND)
  t.equal((await send('c')).status, 200)
  t.notOk(outcomes.includes('heard'), 'a message that names no event is no reason to read')
  await send('c', key, { notification_type: 'signal.updated' })
  t.equal(outcomes.at(-1), 'heard')
})

test('only an upstream that the roster has no more is told to stop', async (t) => {
  const { clock, pass, answer, start, send } = listening(t)
  const own = createRegistrations({ clock })
  const first = start('declares', own)
  await pass(0)
  await answer()
  for (const known of ['unknown', 'mute'] as const) {
    t.equal((await send(start(known).listener, 'a')).status, 503, `as long as it is there, ${known}`)
  }
  const others = start('left', own)
  t.equal((await send(others.listener, 'a')).status, 503, 'it may have come at the process that subscribed')
  t.equal((await send(start('left', undefined, false).listener, 'a')).status, 503, 'a registry may list it')
  t.equal((await send(start('left').listener, 'a')).status, 410)
  first.become('unknown')
  await pass(2 * HOUR)
  t.equal((await send(others.listener, 'a')).status, 410, 'nobody has renewed it')
})

test('a process that no longer reads an upstream leaves the subscription to whoever does', async (t) => {
  const { clock, said, pass, answer, start, send } = listening(t)
  const registrations = createRegistrations({ clock })
  const one = start('declares', registrations)
  await pass(0)
  await answer()
  const other = start('elsewhere', registrations)
  one.become('elsewhere')
  other.become('declares')
  await pass(SECOND)
  await answer()
  t.equal(said.length, 2, 'the other one subscribes')
  one.become('left')
  await pass(SECOND)
  t.equal(said.length, 2, 'a file without it says nothing for whoever reads it')
  t.equal((await send(other.listener, 'a')).status, 200)
})

test('only the newest configuration tells an upstream that it has left', async (t) => {
  const { clock, said, pass, answer, start, send } = listening(t)
  const registrations = createRegistrations({ clock })
  const { listener, become, age } = start('declares', registrations)
  await pass(0)
  await answer()
  age()
  become('left')
  await pass(SECOND)
  t.equal(said.length, 1)
  t.equal((await send(listener, 'a')).status, 503, 'others go on listening')
})

test('whoever reads an upstream at which nobody is subscribed any more subscribes at once', async (t) => {
  const { clock, said, pass, answer, start } = listening(t)
  const registrations = createRegistrations({ clock })
  const one = start('declares', registrations)
  await pass(0)
  await answer()
  one.become('left')
  await pass(SECOND)
  t.same(said[1]?.configs, [])
  const other = start('declares', registrations)
  await pass(SECOND)
  said[2]?.answer()
  await pass(0)
  t.equal(said.length, 3, 'it subscribes before the first has been answered')
  said[1]?.answer()
  await pass(0)
  await pass(SECOND)
  t.equal(said.length, 4, 'and again after, because its list may have been emptied')
  t.equal(said[3]?.configs.length, 1)
  await answer()
  other.become('unknown')
  await pass(SECOND)
  t.equal(said.length, 4)
})
