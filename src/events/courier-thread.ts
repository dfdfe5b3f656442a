/** The thread of courier.ts: signs and sends what it is given, many at a time, and says what became of each. */
import { parentPort, workerData } from 'node:worker_threads'
import { callersResolve } from '../net/callers-names.js'
import { createEgress } from '../net/egress.js'
import type { EgressPolicy } from '../net/routes.js'
import type { SendOutcome } from '../net/send.js'
import { giveWay } from '../process/threads.js'
import type { SigningKey } from '../signing/key.js'
import { createSigner, WEBHOOKS } from '../signing/signature.js'
import { createPost, type Letter } from './letter.js'

/** `connections`: at one origin, at most. */
export type CourierStart = { policy: EgressPolicy; key: SigningKey | undefined; connections: number }
export type CourierOrder = { policy: EgressPolicy } | { letter: Letter; number: number }
/** What became of the letter of this number, or why it could not be sent at all. */
export type CourierAnswer = { number: number; answer: SendOutcome | string }

const { policy, key, connections } = workerData as CourierStart
const egress = createEgress({ policy, resolve: callersResolve, connections })
const post = createPost({ send: egress.send, ...(key && { signer: createSigner(key, WEBHOOKS) }) })

async function answerOf(letter: Letter): Promise<SendOutcome | string> {
  try {
    return await post(letter)
  } catch (error) {
    return (error as Error).message
  }
}

giveWay()
parentPort?.on('message', async (order: CourierOrder) => {
  if ('policy' in order) return egress.reconfigure(order.policy)
  const { number, letter } = order
  const answer: CourierAnswer = { number, answer: await answerOf(letter) }
  parentPort?.postMessage(answer)
})
