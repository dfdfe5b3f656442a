import { createHmac, generateKeyPairSync } from 'node:crypto'
import tap, { test } from 'tap'
import { naturalKey } from '../../src/activation/accounts.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { until } from '../support/upstream-world.js'
import { startReceiver } from './support/receiver.js'
import { verifySignature } from './support/verify-signature.js'
import { anonymous, buyer, other, readAnswer, startWorld } from './support/world.js'

const SECRET = 'a shared secret of at least 32 characters'
const hmac = { schemes: ['HMAC-SHA256'], credentials: SECRET }
const { ask, sandbox, store } = await startWorld(tap, 200)
const time_budget = { interval: 1, unit: 'seconds' } as const

test('what takes longer is submitted, completed and notified, with the signals of the late upstream', async (t) => {
  const { url, received } = await startReceiver(t, (request) => (request === 0 ? 503 : 200))
  sandbox.agents.meridian.briefTakes(600)
  const config = { url, operation_id: 'op_1', token: 'a token of the buyer', authentication: hmac }
  const question = { signal_spec: 'mortgage seekers', time_budget, push_notification_config: config }
  const { status, taskId, signals } = readAnswer(await ask(question))
  t.equal(status, 'submitted')
  t.same(signals, [])
  if (taskId === undefined) throw new Error('no task id')
  t.equal((await store.tasks.get('buyer', taskId))?.status, 'submitted')
  t.equal(await store.tasks.get(other.caller, taskId), undefined, 'a task is its own caller`s')

  await until('the notification is taken', () => received.length === 2)
  const task = await store.tasks.get('buyer', taskId)
  t.equal(task?.status, 'completed')
  const result = task?.result as { signals: object[]; ext: { tributary: { upstreams: object[] } } }
  t.ok(result.signals.length > 0)
  t.ok(result.ext.tributary.upstreams.some((each) => JSON.stringify(each).match(/meridian.*answered/)))

  const [first, second] = received
  t.equal(first?.body, second?.body, 'a retry sends the same bytes')
  const timestamp = String(second?.headers['x-adcp-timestamp'])
  const digest = createHmac('sha256', SECRET).update(`${timestamp}.${second?.body}`).digest('hex')
  t.equal(second?.headers['x-adcp-signature'], `sha256=${digest}`)
  const body = JSON.parse(second?.body ?? '{}')
  t.match(body, {
    ...{ task_id: taskId, operation_id: 'op_1', token: 'a token of the buyer', context_id: 'ctx_test' },
    ...{ status: 'completed', task_type: 'get_signals', protocol: 'signals' },
  })
  t.same(body.result, result)
  await until('nothing is left to do', async () => (await store.work.backlog()).length === 0)
  if (SCHEMAS_ABSENT) return t.comment(`not validated: ${SCHEMAS_ABSENT}`)
  const validate = await adcpSchema('core/mcp-webhook-payload.json')
  t.ok(validate(body), JSON.stringify(validate.errors))
})

test('a task of an account is found under it, by whichever name the caller asks', async (t) => {
  const { url } = await startReceiver(t)
  const push_notification_config = { url, operation_id: 'op_3', authentication: hmac }
  const natural = { brand: { domain: 'acme.example' }, operator: 'agency.example' }
  const declared = { settings: {}, status: 'active', notificationConfigs: [] } as const
  await store.accounts.put({
    caller: 'buyer',
    accountId: 'acct_1',
    naturalKey: naturalKey(natural),
    ...declared,
  })
  sandbox.agents.meridian.briefTakes(300)
  const question = { signal_spec: 'accounts of their own', time_budget, push_notification_config }
  const tasks = await Promise.all(
    [{ account_id: 'acct_1' }, natural].map(
      async (account) => readAnswer(await ask({ ...question, account })).taskId,
    ),
  )
  const newest = { field: 'created_at', direction: 'desc' } as const
  const found = await store.tasks.list('buyer', { account: naturalKey(natural) }, newest, {
    limit: 10,
    offset: 0,
  })
  t.same(found.tasks.map(({ id }) => id).sort(), tasks.sort())
  await until('nothing is left to do', async () => (await store.work.backlog()).length === 0)
})

test('with a signing key, a webhook is signed as RFC 9421 says', async (t) => {
  for (const [type, options, alg] of [
    ['ed25519', {}, 'ed25519'],
    ['ec', { namedCurve: 'P-256' }, 'ecdsa-p256-sha256'],
  ] as const) {
    const { privateKey, publicKey } = generateKeyPairSync(type as 'ec', options as { namedCurve: string })
    const { ask, sandbox } = await startWorld(t, 30, { key: { keyId: 'key-1', privateKey } })
    const { url, received } = await startReceiver(t)
    sandbox.agents.meridian.briefTakes(300)
    const push_notification_config = { url, operation_id: 'op_2' }
    const answer = readAnswer(await ask({ signal_spec: 'mortgages', time_budget, push_notification_config }))
    t.equal(answer.status, 'submitted')
    await until('it is notified', () => received.length === 1)
    const [request] = received
    if (!request) throw new Error('nothing came')
    const verified = verifySignature(request, url, publicKey)
    t.match(verified, { ok: true, params: { alg, keyid: 'key-1', tag: 'adcp/webhook-signing/v1' } })
    t.same(verified.covered, ['@method', '@target-uri', '@authority', 'content-type', 'content-digest'])
    const { created, expires } = verified.params ?? {}
    t.ok(Number(expires) > Number(created) && Number(expires) - Number(created) <= 300)
    const forged = { ...request, body: request.body.replace('completed', 'failed') }
    t.match(verifySignature(forged, url, publicKey), { ok: false })
    t.notOk(request.headers['x-adcp-signature'], 'never both')
  }
})

test('a notification that cannot be honoured is refused at once', async (t) => {
  const signal_spec = 'mortgages'
  const url = 'https://buyer.example/hook'
  const refusals: [object, string][] = [
    [{ url: 'http://10.0.0.1/hook', authentication: hmac }, 'push_notification_config.url'],
    [{ url: 'http://169.254.169.254/latest', authentication: hmac }, 'push_notification_config.url'],
    [{ url: 'ftp://127.0.0.1/hook', authentication: hmac }, 'push_notification_config.url'],
    [{ url: 'http://user:word@127.0.0.1/hook', authentication: hmac }, 'push_notification_config.url'],
    [{ url: 'http://127.0.0.1/hook' }, 'push_notification_config.authentication'],
    [
      { url, authentication: { schemes: ['Basic'], credentials: SECRET } },
      'push_notification_config.authentication',
    ],
    [
      { url, authentication: { schemes: ['Bearer'], credentials: 'short' } },
      'push_notification_config.authentication',
    ],
    [{ url, token: 'short', authentication: hmac }, 'push_notification_config.token'],
    [{ url, operation_id: 'two words', authentication: hmac }, 'push_notification_config.operation_id'],
  ]
  for (const [config, field] of refusals) {
    const answer = await ask({ signal_spec, push_notification_config: config as { url: string } })
    t.equal(answer.kind, 'refused', JSON.stringify(config))
    if (answer.kind !== 'refused') continue
    t.equal(answer.error.code, 'INVALID_REQUEST')
    t.ok(answer.error.field?.startsWith(field), `${answer.error.field}`)
  }
  const nobody = await ask({ signal_spec, push_notification_config: { url } }, anonymous)
  t.match(nobody, { kind: 'refused', error: { code: 'AUTH_REQUIRED' } })
})

test('without a wish to be notified, what there is is answered now', async (t) => {
  sandbox.agents.meridian.briefTakes(5_000)
  const answer = readAnswer(await ask({ signal_spec: 'student loan seekers', time_budget }, buyer))
  t.equal(answer.taskId, undefined)
  t.ok(answer.signals.length > 0)
  t.match(
    answer.incomplete?.find(({ description }) => description.includes('meridian')),
    { scope: 'signals', description: /still working/ },
  )
})
