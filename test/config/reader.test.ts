import { generateKeyPairSync } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { ConfigError, parseConfig } from '../../src/config/load.js'
import { configIn } from '../../src/config/reader.js'
import type { Config } from '../../src/config/values.js'

const FEW_TURNS = 10 // that pass when it is read in place

const { privateKey } = generateKeyPairSync('ed25519')
const TOKEN = '$' + '{A_TOKEN}'
const PEM = String(privateKey.export({ type: 'pkcs8', format: 'pem' }))

const written = (callers: number) =>
  JSON.stringify({
    upstreams: [{ id: 'a', url: 'https://a.example/mcp', auth: { type: 'bearer', token: TOKEN } }],
    events: { signing_key: { id: 'one', private_key: PEM } },
    callers: {
      keys: Array.from({ length: callers }, (_, at) => ({
        id: `caller-${at}`,
        token_sha256: String(at).padStart(64, '0'),
      })),
    },
  })
const ENVIRONMENT = { A_TOKEN: 'secret' }

/** What of it can be compared. */
const facts = (config: Config) => ({
  ...{ ...config, shown: config.shown() },
  events: config.events.signingKey?.privateKey.export({ type: 'pkcs8', format: 'pem' }),
})

test('a configuration that is read in a thread is what it is here', async (t) => {
  const text = written(2)
  t.same(facts(await configIn('c.json', text, ENVIRONMENT)), facts(parseConfig('c.json', text, ENVIRONMENT)))
})

const faultOf = (error: unknown) =>
  error instanceof ConfigError ? { message: error.message, revision: error.revision } : undefined

function faultIn(text: string) {
  try {
    return parseConfig('c.json', text, {})
  } catch (error) {
    return faultOf(error)
  }
}

test('what is wrong with it is told in the same words', async (t) => {
  for (const text of ['[1, 2', written(1)]) {
    const told = await configIn('c.json', text, {}).catch(faultOf)
    t.same(told, faultIn(text))
    t.ok(told)
  }
})

test('the thread that serves goes on while a large one is read', async (t) => {
  const callers = 300
  let [turns, isOver] = [0, false]
  const reading = configIn('c.json', written(callers), ENVIRONMENT).finally(() => {
    isOver = true
  })
  for (; !isOver; turns += 1) await nextTurn()
  t.equal((await reading).callers.keys.length, callers)
  t.ok(turns > FEW_TURNS, `${turns} turns`)
})
