/** Listeners of one or several processes to one upstream, whose answers the test gives, and a clock that the test moves. */
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Test } from 'tap'
import { createListener, type Listener, type Teller } from '../../../src/events/listener.js'
import { createRegistrations, type Registrations } from '../../../src/events/registrations.js'
import { publicJwk } from '../../../src/signing/key.js'
import { createSigner, WEBHOOKS } from '../../../src/signing/signature.js'
import { createReplayGuard } from '../../../src/signing/verify.js'
import { createManualClock } from '../../support/upstream-clock.js'

export const AGENT = 'https://far.example/mcp'
const TURNS = 10 // of the event loop, in which what an answer starts goes on

type Said = { configs: readonly { url: string }[]; patience: number; answer(more?: object): void }

/** What a process has to do with the upstream. `unknown`: it does not know what that declares. `elsewhere`: another one reads it. */
export type Known = 'declares' | 'unknown' | 'elsewhere' | 'mute' | 'left'

export function listening(t: Test) {
  const { clock, advance } = createManualClock()
  const key = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const secret = randomBytes(32)
  const said: Said[] = []
  const problems: string[] = []
  const outcomes: string[] = []
  const teller: Teller = {
    ...{ id: 'far', agentUrl: AGENT, brandJsonUrl: 'https://far.example/brand.json' },
    types: ['signal.updated'],
    syncAccounts(args, deadline) {
      const { notification_configs: configs } = (
        args as { accounts: { notification_configs: Said['configs'] }[] }
      ).accounts[0] as { notification_configs: Said['configs'] }
      const patience = deadline - clock.now()
      return new Promise((resolve) => {
        const answer = (more: object = {}) =>
          resolve({
            accounts: [{ account_id: 'acc', action: 'updated', notification_configs: configs, ...more }],
          })
        said.push({ configs, patience, answer })
        if (isOver) answer()
      })
    },
  }
  const far = { chance: 0.5 } // for jitter
  let isOver = false
  const settled = async () => {
    for (let turn = 0; turn < TURNS; turn += 1) await nextTurn()
  }

  /** A process; `registrations` where it shares them with others. */
  function start(
    first: Known = 'declares',
    registrations: Registrations = createRegistrations({ clock }),
    isRosterKnown = true,
  ) {
    let known = first
    let isNewest = true
    const tellers = () => {
      if (known === 'left') return new Map<string, undefined>()
      const is = known === 'declares' ? teller : known === 'unknown' ? undefined : known
      return new Map([[AGENT, is]] as const)
    }
    const listener = createListener({
      ...{ tellers, registrations, clock, publicUrl: 'https://near.example', secret },
      ...{
        newId: randomUUID,
        account: () => ({}),
        isRosterKnown: () => isRosterKnown,
        isNewest: () => isNewest,
        random: () => far.chance,
      },
      onOutcome: (outcome) => outcomes.push(outcome),
      heard: () => ({ gainedMs: 0, spared: 0 }),
      keyOf: async () => ({ owner: AGENT, jwk: publicJwk(key) }),
      replay: createReplayGuard({ now: clock.now }),
      onProblem: (problem) => problems.push(problem),
    })
    listener.start()
    t.teardown(() => {
      isOver = true // what is asked from now on is answered, too
      for (const one of said) one.answer()
      return listener.close()
    })
    return {
      listener,
      become(next: Known) {
        known = next
      },
      /** Another process runs a newer configuration. */
      age() {
        isNewest = false
      },
    }
  }

  /** Sends what the upstream might to a process, at the url that it was given. */
  async function send(to: Listener, from: string, by = key, more: object = {}) {
    const { url } = said[0]?.configs[0] ?? { url: '' }
    const token = new URL(url).pathname.split('/').at(-1) ?? ''
    const ours = { subscriber_id: 'tributary', account_id: 'acc', idempotency_key: randomUUID() }
    const text = JSON.stringify({ ...ours, ...more })
    const signed = createSigner(by, WEBHOOKS)(url, text, clock.now(), randomBytes(16).toString('base64url'))
    const headers = Object.fromEntries(
      Object.entries({ ...signed, 'content-type': 'application/json' }).map(([name, value]) => [
        name,
        [value],
      ]),
    )
    return await to.receive({ token, headers, body: Buffer.from(text), from })
  }

  return {
    ...{ clock, far, said, problems, outcomes, key, start, send },
    async pass(ms: number) {
      advance(ms)
      await settled()
    },
    async answer(more?: object) {
      said.at(-1)?.answer(more)
      await settled()
    },
  }
}
