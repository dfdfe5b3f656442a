/** Accounts of test callers: which are sandbox accounts, what their status is forced to, and fixtures that make new ones. */
import { isDeepStrictEqual } from 'node:util'
import { naturalKey } from '../../activation/own-account.js'
import type { Answer } from '../../adcp/answer.js'
import { AccountReference, type Caller } from '../../adcp/caller.js'
import { isRecord } from '../../adcp/json.js'
import { PAYMENT_TERMS } from '../../adcp/requests/account-requests.js'
import { compileCheck } from '../../adcp/validation.js'
import { ACCOUNT_STATUSES, type AccountStatus, type StoredAccount } from '../../store/records/accounts.js'
import type { Store } from '../../store/store.js'

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

/** The controller's answer that it did what was asked. */
export function succeeded(message: string, fields: Readonly<Record<string, unknown>> = {}): Answer {
  return { kind: 'answer', message, fields: { success: true, ...fields } }
}

/** `detail` holds no text of a stranger. */
export function refusedTest(error: ControllerError, detail: string, current?: string): Answer {
  const state = current === undefined ? {} : { current_state: current }
  return {
    kind: 'failed',
    message: detail,
    fields: { success: false, error, error_detail: detail, ...state },
  }
}

/** Statuses that are final. */
const ENDS: ReadonlySet<AccountStatus> = new Set(['closed', 'rejected'])

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

export function createTestAccounts({ store }: { store: Pick<Store, 'accounts' | 'write'> }) {
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
