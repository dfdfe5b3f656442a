/** A child process: sends many requests of our own to a server of its own, and tells what one leaves. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createEgress } from '../../../src/net/egress.js'
import type { Outbound } from '../../../src/net/send.js'
import { leftOfEach, tellLeft } from '../../support/left-of-each.js'

const server = createServer((asked, response) => {
  asked.resume().on('end', () => response.end('{}'))
})

async function main(): Promise<void> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const egress = createEgress({ policy: { allowHttp: true, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const asked: Outbound = {
    url: `http://127.0.0.1:${port}/`,
    method: 'POST',
    body: '{}',
    timeoutMs: 60_000,
    maxBytes: 1_000,
  }
  const send = (more: Partial<Outbound>) => async () => {
    const reply = await egress.send({ ...asked, ...more })
    if (reply.kind === 'failed') throw new Error(reply.message)
  }
  tellLeft([
    ['whose answer is read', await leftOfEach(send({}))],
    ['whose answer nobody wants', await leftOfEach(send({ enough: () => () => true }))],
  ])
}

if (process.send) await main()
