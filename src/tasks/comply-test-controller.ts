/**
 * comply_test_controller: brings about states that a test of callers needs and that no request can cause
 * (comply_test_controller reference): answers that come later, tasks that end, accounts in any status and accounts that are
 * new. Only a sandbox offers it, and for sandbox accounts alone; the configuration refuses it elsewhere.
 */
import { isDeepStrictEqual } from 'node:util'
import { naturalKey } from '../activation/accounts.js'
import { type Answer, type Release, refuse } from '../adcp/answer.js'
import { AccountReference, type Caller } from '../adcp/caller.js'
import { isRecord } from '../adcp/json.js'
import { compileCheck, type Static, Type } from '../adcp/schema.js'
import type { GetSignalsRequest } from '../adcp/signal-requests.js'
import { PAYMENT_TERMS, requestEnvelope } from '../adcp/task-schemas.js'
import type { DiscoverAnswer } from '../briefs/discover.js'
import { endQuestion, type Noticed } from '../briefs/notice.js'
import { type PushRules, readPushConfig } from '../events/webhook.js'
import type { Reader } from '../feed/query.js'
import { createRecent } from '../process/memory.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import { ACCOUNT_STATUSES, type AccountStatus, type StoredAccount } from '../store/records/accounts.js'
import { isFinal } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import type { SignalsDiscovery } from './get-signals.js'
import type { Task } from './task.js'

const HELD = 'held_question' // no worker handles this kind
const FINISHING_MS = 30_000
const MOST_ARMED = 1_000
const RESULT_BYTES = 256 * 1024

/** Statuses that are final. */
const ENDS: ReadonlySet<AccountStatus> = new Set(['closed', 'rejected'])

/** As get_adcp_capabilities declares them (`compliance_testing.scenarios`). 3.0 knows the first. */
const SCENARIOS = [
  'force_account_status',
  'force_get_signals_arm',
  'force_task_completion',
  'seed_account',
] as const

const Request = Type.Object({
  ...requestEnvelope,
  scenario: Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'list_scenarios, or one that it lists.',
  }),
  account: Type.Optional(Type.Object({}, { description: 'A sandbox account of yours.' })),
  params: Type.Optional(Type.Object({})),
})
type Request = Static<typeof Request>

/**
 * What comply_test_controller says (schema compliance/comply-test-controller-response): success or error, in words of
 * its own.
 */
type ControllerError =
  | 'INVALID_TRANSITION'
  | 'INVALID_STATE'
  | 'NOT_FOUND'
  | 'UNKNOWN_SCENARIO'
  | 'INVALID_PARAMS'
  | 'FORBIDDEN'

type Params = Readonly<Record<string, unknown>>
type Armed = { id: string; message: string }

type TestControllerOptions = {
  store: Pick<Store, 'accounts' | 'jobs' | 'tasks' | 'write'>
  pushRules: PushRules
  /** Unguessable. */
  newId(): string
}

/** What this release has a word for. */
export function scenariosOf(release: Release): readonly string[] {
  return release === '3.0' ? SCENARIOS.slice(0, 1) : SCENARIOS
}

/** The controller's answer that it did what was asked. */
function succeeded(message: string, fields: Readonly<Record<string, unknown>> = {}): Answer {
  return { kind: 'answer', message, fields: { success: true, ...fields } }
}

/** `detail` holds no text of a stranger. */
function refusedTest(error: ControllerError, detail: string, current?: string): Answer {
  const state = current === undefined ? {} : { current_state: current }
  return {
    kind: 'failed',
    message: detail,
    fields: { success: false, error, error_detail: detail, ...state },
  }
}

const check = compileCheck(AccountReference)
const isSandbox = ({ settings }: StoredAccount) => settings.sandbox === true

function isStatus(value: unknown): value is AccountStatus {
  return ACCOUNT_STATUSES.some((status) => status === value)
}

/** The natural key that a fixture has; undefined when it names no account. */
function keyOf({ brand, operator }: Readonly<Record<string, unknown>>): string | undefined {
  const checked = check({ brand, operator, sandbox: true })
  return checked.ok && 'operator' in checked.value ? naturalKey(checked.value) : undefined
}

/** Accounts of test callers: which are sandbox accounts, what their status is forced to, and fixtures that make new ones. */
function createTestAccounts(store: Pick<Store, 'accounts' | 'write'>) {
  /**
   * The natural key of the sandbox account that a request names; undefined when it names none, or one that is real. Of an
   * account with an id our own record decides; `sandbox` is a part of a natural key, so it names another account than
   * the same brand and operator without it.
   */
  async function sandboxKey({ id }: Pick<Caller, 'id'>, account: unknown): Promise<string | undefined> {
    if (!isRecord(account)) return undefined
    if (typeof account.account_id !== 'string') return account.sandbox === true ? keyOf(account) : undefined
    const stored = await store.accounts.get(id, account.account_id)
    return stored && isSandbox(stored) ? stored.naturalKey : undefined
  }

  async function forceStatus(
    { id }: Caller,
    { account_id: accountId, status }: Readonly<Record<string, unknown>>,
  ): Promise<Answer> {
    if (typeof accountId !== 'string' || !isStatus(status)) {
      const statuses = ACCOUNT_STATUSES.join(', ')
      return refusedTest('INVALID_PARAMS', `Send params.account_id, and params.status as one of ${statuses}.`)
    }
    const stored = await store.accounts.get(id, accountId)
    if (!stored) return refusedTest('NOT_FOUND', 'There is no such account.')
    if (!isSandbox(stored)) return refusedTest('FORBIDDEN', 'The account is not a sandbox account.')
    const before = stored.status
    if (ENDS.has(before) && status !== before) {
      return refusedTest('INVALID_TRANSITION', 'The account has ended.', before)
    }
    await store.write(({ accounts }) => accounts.put({ ...stored, status }))
    return succeeded(`The account is ${status}.`, { previous_state: before, current_state: status })
  }

  /** Makes an account; the same fixture again changes nothing. */
  async function seed(
    { id: caller }: Caller,
    { account_id: accountId, fixture = {} }: Readonly<Record<string, unknown>>,
    named: string,
  ): Promise<Answer> {
    if (typeof accountId !== 'string' || !/^[\x21-\x7e]{1,256}$/.test(accountId) || !isRecord(fixture)) {
      return refusedTest('INVALID_PARAMS', 'Send params.account_id, and params.fixture as an object.')
    }
    const key = fixture.brand === undefined ? named : keyOf(fixture)
    if (key === undefined) {
      return refusedTest('INVALID_PARAMS', 'Send params.fixture with brand and operator, or with neither.')
    }
    const { status = 'active', billing = 'operator', payment_terms } = fixture
    if (!isStatus(status)) return refusedTest('INVALID_PARAMS', 'params.fixture.status is no status.')
    const terms = PAYMENT_TERMS.some((one) => one === payment_terms) ? { payment_terms } : {}
    const settings = { ...(JSON.parse(key) as object), billing, sandbox: true, ...terms }
    const account: StoredAccount = {
      ...{ caller, accountId, naturalKey: key, settings, status },
      notificationConfigs: [],
    }
    const known = await store.accounts.get(caller, accountId)
    if (known) {
      return isDeepStrictEqual(known.settings, settings) && known.status === status
        ? succeeded('The account was there already.')
        : refusedTest('INVALID_PARAMS', 'Another account has this id.')
    }
    const taken = await store.accounts.byNaturalKey(caller, key)
    if (taken) return refusedTest('INVALID_STATE', 'This brand and operator have an account already.')
    await store.write(({ accounts }) => accounts.put(account))
    return succeeded('The account was made.')
  }

  return { sandboxKey, forceStatus, seed }
}

/**
 * Questions whose answer a test supplies, held in the storage, so that every process can finish them. Their tasks and notices are
 * ordinary ones.
 */
function createHeldQuestions({ store, pushRules, newId }: TestControllerOptions) {
  const owner = newId()

  /** Answers the question with `submitted` and this task id. `account`: its natural key. */
  async function hold(
    task: { id: string; account: string; message: string },
    input: GetSignalsRequest,
    { caller }: Reader,
    contextId: string,
  ): Promise<DiscoverAnswer> {
    const { push_notification_config: asked, ...request } = input
    const push = await readPushConfig(asked, pushRules)
    if (push && 'refused' in push) return { kind: 'refused', error: push.refused }
    const { id, account, message } = task
    const data: Noticed = { contextId, ...(push && { push }) }
    try {
      await store.write(async ({ tasks, jobs }) => {
        const ours = { id, caller, account, type: 'get_signals', status: 'submitted' } as const
        await tasks.create({ ...ours, request, webhook: push !== undefined })
        // A test may use the id of a task again, so the job has one of its own.
        await jobs.add({ id: `${id}_${newId()}`, kind: HELD, lane: caller, caller, key: id, data })
      })
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return refuse('SERVICE_UNAVAILABLE', 'The task could not be kept.', {
        suggestion: 'Repeat the request.',
      })
    }
    return { kind: 'answer', status: 'submitted', message, fields: { task_id: id } }
  }

  /**
   * Ends a task of the caller's with this result, and sends the notice if one was requested. False when it had ended.
   */
  async function finish(caller: string, id: string, result: object): Promise<boolean> {
    const jobs = await store.jobs.ofKey(caller, id)
    const open = jobs.find(({ kind, state }) => kind === HELD && state === 'open')
    const held = open && (await store.jobs.claim(open.id, { owner, ms: FINISHING_MS }))
    return await store.write(async ({ tasks, jobs: all }) => {
      if (!(await tasks.progress(id, { status: 'completed', result }))) return false
      if (held) await endQuestion(all, held, id, 'completed')
      return true
    })
  }

  return { hold, finish }
}

const isText = (value: unknown, most: number): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= most

/** Rows of a result are shown with what the caller may see of them, so they have to be rows. */
function isResult(result: unknown): result is object {
  if (!isRecord(result) || JSON.stringify(result).length > RESULT_BYTES) return false
  const { signals = [] } = result
  if (!Array.isArray(signals)) return false
  return signals.every((row: unknown) => {
    if (!isRecord(row)) return false
    const { deployments = [] } = row
    return Array.isArray(deployments) && deployments.every(isRecord)
  })
}

export function createTestController(options: TestControllerOptions) {
  const { store } = options
  const accounts = createTestAccounts(store)
  const questions = createHeldQuestions(options)
  /** What the next brief of a caller for an account is answered with. */
  const armed = createRecent<Armed>(MOST_ARMED)
  const armOf = (caller: string, account: string) => JSON.stringify([caller, account])

  async function arm({ id: caller }: Caller, account: string, params: Params): Promise<Answer> {
    const { arm: wanted, task_id: id, message = 'Signal discovery is queued.' } = params
    if (wanted !== 'submitted' || !isText(id, 128) || !isText(message, 2_000)) {
      return refusedTest('INVALID_PARAMS', 'Send params.arm as submitted, and params.task_id.')
    }
    if (!(await store.write(({ tasks }) => tasks.free(caller, id)))) {
      return refusedTest('INVALID_STATE', 'A task of this id goes on, or it cannot be had: name another.')
    }
    armed.set(armOf(caller, account), { id, message })
    return succeeded('The next brief of this account is answered so.', {
      forced: { arm: wanted, task_id: id },
    })
  }

  async function complete({ id: caller }: Caller, account: string, params: Params): Promise<Answer> {
    const { task_id: id, result } = params
    if (!isText(id, 128) || !isResult(result)) {
      return refusedTest('INVALID_PARAMS', 'Send params.task_id, and params.result as an answer of the task.')
    }
    const task = await store.tasks.get(caller, id)
    if (task?.account !== account) return refusedTest('NOT_FOUND', 'There is no such task.')
    const ended = refusedTest('INVALID_TRANSITION', 'The task has ended.', task.status)
    if (isFinal(task.status) || !(await questions.finish(caller, id, result))) return ended
    return succeeded('The task is completed.', { previous_state: task.status, current_state: 'completed' })
  }

  async function handle(request: Request, { caller }: { caller: Caller }): Promise<Answer> {
    const { scenario, params = {} } = request
    const account = await accounts.sandboxKey(caller, request.account)
    if (account === undefined) {
      return refusedTest('FORBIDDEN', 'Name a sandbox account: account.sandbox must be true.')
    }
    if (scenario === 'list_scenarios') return succeeded('These can be forced.', { scenarios: SCENARIOS })
    if (scenario === 'force_get_signals_arm') return arm(caller, account, params)
    if (scenario === 'force_task_completion') return complete(caller, account, params)
    if (scenario === 'force_account_status') return accounts.forceStatus(caller, params)
    if (scenario === 'seed_account') return accounts.seed(caller, params, account)
    return refusedTest('UNKNOWN_SCENARIO', `This agent knows ${SCENARIOS.join(', ')}.`)
  }

  const task: Task<typeof Request> = {
    name: 'comply_test_controller',
    title: 'Force what a test has to see',
    description:
      'For tests of clients against this sandbox: forces the next brief of a sandbox account to be answered later, ' +
      'completes a task with a given result, sets the status of an account, makes an account.',
    request: Request,
    destructive: true,
    mutating: true,
    handle,
  }

  /** Discovery that does what was armed, once. */
  function forced(discovery: SignalsDiscovery): SignalsDiscovery {
    return {
      lookup: discovery.lookup,
      async discover(input, reader, context) {
        const account = input.account && (await accounts.sandboxKey({ id: reader.caller }, input.account))
        const key = account && armOf(reader.caller, account)
        const directive = key && armed.get(key)
        if (!account || !key || !directive) return discovery.discover(input, reader, context)
        armed.delete(key)
        return questions.hold({ ...directive, account }, input, reader, context.contextId)
      },
    }
  }

  return { task, forced }
}
