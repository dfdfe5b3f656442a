/** Where a caller's webhook may go: public https or the networks opened for webhooks, asked for within a deadline. */
import { test } from 'tap'
import { createTargetCheck, webhookPolicy } from '../../src/events/webhook.js'
import { startWorld } from '../support/federation.js'

const authentication = { schemes: ['HMAC-SHA256'], credentials: 'a shared secret of thirty-two characters' }

test('what is opened or routed for upstreams is not for webhooks', async (t) => {
  const world = await startWorld({
    signals: 24,
    config: (hosts) => ({
      egress: {
        hosts: { ...hosts, 'internal.example': 'http://127.0.0.1:9' },
        allow_networks: ['127.0.0.0/8'],
        webhook_networks: ['127.9.0.0/16'],
      },
    }),
  })
  t.teardown(() => world.close())
  const ask = (url: string) =>
    world.call('get_signals', {
      ...{ discovery_mode: 'brief', signal_spec: 'coffee' },
      push_notification_config: { url, operation_id: 'op_1', authentication },
    })
  for (const url of [
    'http://127.0.0.1:9/hook',
    'https://127.0.0.1:9/hook',
    'http://internal.example/hook',
    'https://internal.example/hook',
  ]) {
    t.match(
      await ask(url),
      {
        status: 'failed',
        adcp_error: {
          code: 'INVALID_REQUEST',
          field: 'push_notification_config.url',
          suggestion: /public https/,
        },
      },
      url,
    )
  }
  t.notMatch((await ask('http://127.9.0.1:9/hook')).status, 'failed', 'a network opened for webhooks')

  const wrong = { url: 'https://u:p@127.0.0.1:9/hook', operation_id: 'two words', token: 'short' }
  const { adcp_error: told } = (await world.call('get_signals', {
    ...{ signal_spec: 'coffee', push_notification_config: wrong },
  })) as { adcp_error?: { issues: { pointer: string; message: string }[] } }
  t.same(
    told?.issues.map(
      ({ pointer, message }) => `${pointer.replace('/push_notification_config/', '')} ${message}`,
    ),
    [
      'operation_id must be 1 to 255 letters, digits and _ . : -',
      'token must have at least 16 characters',
      'url must have neither credentials nor a fragment',
      'url cannot be reached from here',
      'authentication is needed: this agent has no webhook signing key',
    ],
    'everything that is wrong with one configuration is told at once',
  )
})

test('a name that nobody answers for ends the question, not the caller`s patience', async (t) => {
  const others = setInterval(() => {}, 1_000) // a server always has something else to wait for
  t.teardown(() => clearInterval(others))
  const check = createTargetCheck(() => webhookPolicy({ webhookNetworks: [] }), {
    resolve: () => new Promise(() => {}),
    lookupMs: 20,
  })
  t.equal(await check('https://nobody.answers.example/hook'), 'unresolvable')
})
