import { createSocket } from 'node:dgram'
import { test } from 'tap'
import { systemResolve } from '../../src/net/addresses.js'
import { createCallersResolve } from '../../src/net/callers-names.js'
import { until } from '../support/upstream-world.js'

const ADDRESSES = new Map([
  [1, Buffer.from([192, 0, 2, 7])],
  [28, Buffer.from('20010db8000000000000000000000007', 'hex')],
])

/** A name server that knows every name, says that there is none, or says nothing. */
async function nameServer(t: { teardown(task: () => unknown): void }, says: 'all' | 'none' | 'nothing') {
  const socket = createSocket('udp4')
  const names = new Set<string>()
  socket.on('message', (question, { port, address }) => {
    const end = question.indexOf(0, 12)
    names.add(question.toString('latin1', 12, end))
    if (says === 'nothing') return
    const answer = ADDRESSES.get(question.readUInt16BE(end + 1)) ?? Buffer.alloc(0)
    const head = Buffer.from(question.subarray(0, 12))
    head.writeUInt16BE(says === 'all' ? 0x8180 : 0x8183, 2)
    head.writeUInt16BE(says === 'all' ? 1 : 0, 6)
    head.writeUInt32BE(0, 8)
    const type = question.subarray(end + 1, end + 5)
    const record = [Buffer.from([0xc0, 12]), type, Buffer.from([0, 0, 0, 1, 0, answer.length]), answer]
    socket.send(
      Buffer.concat([head, question.subarray(12, end + 5), ...(says === 'all' ? record : [])]),
      port,
      address,
    )
  })
  await new Promise<void>((ready) => socket.bind(0, '127.0.0.1', ready))
  t.teardown(() => new Promise<void>((closed) => socket.close(() => closed())))
  return { names, resolve: createCallersResolve([`127.0.0.1:${socket.address().port}`]) }
}

test('a public name has the addresses of both families, and one that there is not is said to be none', async (t) => {
  t.same(await (await nameServer(t, 'all')).resolve('hooks.acme.com'), [
    { address: '192.0.2.7', family: 4 },
    { address: '2001:db8::7', family: 6 },
  ])
  const { resolve } = await nameServer(t, 'none')
  await t.rejects(resolve('hooks.acme.com'), { code: 'ENOTFOUND' })
})

test('names whose servers never answer hold up nobody, and end by themselves', async (t) => {
  const { names, resolve } = await nameServer(t, 'nothing')
  let ended = 0
  const asked = Array.from({ length: 64 }, async (_, at) => {
    await t.rejects(resolve(`h${at}.acme.com`), { code: 'ETIMEOUT' })
    ended += 1
  })
  await until('all are asked for at once', () => names.size === 64)
  t.match(await systemResolve('localhost'), [{ family: Number }])
  t.equal(ended, 0, 'while none of them has an answer')
  await Promise.all(asked)
})

test('what is no public name is asked of the system', async (t) => {
  const { names, resolve } = await nameServer(t, 'all')
  t.same(await resolve('localhost'), await systemResolve('localhost'))
  t.same(await resolve('127.0.0.1'), [{ address: '127.0.0.1', family: 4 }])
  t.equal(names.size, 0)
})
