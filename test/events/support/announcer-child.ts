/** A process that tells one subscriber, or so many, of a feed's changes, and is killed: the feed is what its parent says it is. */
import { createPrivateKey, randomUUID } from 'node:crypto'
import { createAnnouncer } from '../../../src/events/announcer.js'
import { createPost } from '../../../src/events/letter.js'
import { createStandings } from '../../../src/events/standings.js'
import { subscriptionJob } from '../../../src/events/stream.js'
import { createWebhook } from '../../../src/events/webhook.js'
import { systemClock } from '../../../src/net/clock.js'
import { createEgress } from '../../../src/net/egress.js'
import { createSigner, WEBHOOKS } from '../../../src/signing/signature.js'
import { openStore } from '../../../src/store/store.js'
import { eyes, publishNumbers } from './numbered-feed.js'
import { EVERY_EVENT } from './subscriber.js'

const [storage = '', url = '', key = '', subscribers = '1'] = process.argv.slice(2)
const store = await openStore({ url: storage, now: Date.now, onProblem: console.error })
const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
const { feed, publish } = publishNumbers()
const standings = createStandings({ feed, clock: systemClock })
const privateKey = createPrivateKey({ key: JSON.parse(key), format: 'jwk' })
const announcer = createAnnouncer({
  ...{ store, standings, clock: systemClock, random: () => 0, newId: randomUUID },
  webhook: createWebhook({
    post: createPost({ send: egress.send, signer: createSigner({ keyId: 'k', privateKey }, WEBHOOKS) }),
    now: Date.now,
  }),
  eyesOf: () => eyes,
  isOpen: async () => true,
  onProblem: console.error,
})
announcer.start()

process.on('message', async (numbers: number[]) => {
  publish(numbers)
  if ((await store.subscriptions.jobs()).length === 0) {
    const config = { url, event_types: EVERY_EVENT }
    const versions = await standings.current(eyes)
    for (let at = 0; at < Number(subscribers); at += 1) {
      const job = `sub${at}`
      await store.subscriptions.add({
        ...{ caller: 'buyer', accountId: 'acc', subscriberId: `s${at}`, job, config },
      })
      await store.jobs.add(subscriptionJob(job, 'buyer', { versions, hasMissed: false }))
    }
  }
  announcer.published()
  process.send?.('published')
})
process.send?.('ready')
