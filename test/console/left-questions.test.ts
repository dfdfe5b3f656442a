import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { BUYER, OPERATOR, read, startConsoleWorld } from './support/console-world.js'

/** A filter of each facet: each of them is counted once more without itself, one after the other. */
const CHOSEN = [
  ...['provider=motorledger.example', 'upstream=signals.northwind.example', 'country=US', 'max_cpm=50'],
  ...['destination=platform:dv360', 'type=marketplace', 'value_type=binary'],
].join('&')

test('a question is left when whoever asked it has gone, and answered to those who still wait', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { url } = world.federation

  /** Asks, and closes the connection with the request on its way. */
  async function asksAndGoes(path: string, key = BUYER): Promise<void> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    await once(socket, 'connect')
    const request = `GET /console/api/${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n\r\n`
    socket.write(request, () => socket.destroy())
    await once(socket, 'close')
  }

  /** What became of all questions so far, once there are `total`. */
  async function became(total: number): Promise<{ answered: number; left: number }> {
    for (const end = Date.now() + 60_000; Date.now() < end; await wait(5)) {
      const headers = { authorization: `Bearer ${OPERATOR}` }
      const text = await (await fetch(`${url}/metrics`, { headers })).text()
      const count = (outcome: string) =>
        Number(
          new RegExp(`^tributary_console_questions_total\\{outcome="${outcome}"\\} (\\d+)`, 'm').exec(
            text,
          )?.[1] ?? 0,
        )
      const found = { answered: count('answered'), left: count('left') }
      if (found.answered + found.left >= total) return found
    }
    throw new Error(`of ${total} questions not all were answered or left`)
  }

  let asked = 0
  do asked += 1
  while ((await read(url, 'facets?q=indexed', BUYER)).status !== 200)

  await asksAndGoes(`facets?q=auto&${CHOSEN}`)
  t.same(await became(asked + 1), { answered: asked, left: 1 }, 'with words')
  await asksAndGoes(`facets?${CHOSEN}`, OPERATOR)
  t.same(await became(asked + 2), { answered: asked, left: 2 }, 'with filters alone')

  const same = `facets?q=intenders&${CHOSEN}`
  const [stays] = await Promise.all([read(url, same, BUYER), asksAndGoes(same)])
  t.equal(stays.status, 200)
  t.same(await became(asked + 4), { answered: asked + 1, left: 3 }, 'one of two who ask the same')
  t.same((await read(url, same, BUYER)).body, stays.body, 'and it is the whole answer')
})
