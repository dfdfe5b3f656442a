/**
 * sync_accounts: a caller declares the accounts it acts for, and settings of accounts it has (schemas
 * account/sync-accounts). This agent invoices nobody: it keeps what was declared and passes natural keys to upstreams.
 */
import { accountIdOf, naturalKey } from '../activation/accounts.js'
import { keyConflict, stillRunning, unlessStorageDown } from '../activation/activation.js'
import { type AdcpError, type Answer, adcpError, howMany } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { nearest } from '../adcp/issue-words.js'
import { SyncAccountsRequest, SyncAccountsResponse } from '../adcp/task-schemas.js'
import {
  type ConfigRules,
  createConfigCheck,
  keptConfig,
  type NotificationConfig,
  type NotificationProblem,
} from '../events/notification-config.js'
import {
  boundedSubscriptions,
  NOTHING_ASKED,
  type Proofs,
  type Subscribing,
  type WantedSubscriptions,
} from '../events/subscriptions.js'
import { nextPortion } from '../process/portion-turns.js'
import { createMeter, PORTION } from '../process/portions.js'
import type { StoredAccount } from '../store/records/accounts.js'
import { canonical, keyedRequest } from '../store/records/idempotency.js'
import type { Repositories, Store } from '../store/store.js'
import { accountName, accountSettings, type HeldAccount, heldAccounts, NO_DOMAIN } from './list-accounts.js'
import type { Task } from './task.js'

const MAX_ACCOUNTS = 10_000 // a caller's declared accounts
const ENTRY_UNITS = PORTION / 8

/** As get_adcp_capabilities says (`account.supported_billing`). */
const BILLING: ReadonlySet<string> = new Set(['operator', 'agent'])

/** What an entry that declares an account has, and one that changes settings must not have. */
const DECLARING = ['brand', 'operator', 'billing'] as const

type AccountEntry = SyncAccountsRequest['accounts'][number]

type Result = Record<string, unknown>
type Target = { id: string; naturalKey?: string; stored?: StoredAccount; declared: Record<string, unknown> }

/** Bank details are write-only in the protocol, and this agent pays nobody: they are not kept at all. */
function withoutBank(entity: Record<string, unknown>): Record<string, unknown> {
  const { bank: _, ...rest } = entity
  return rest
}

function settable({ billing_entity, payment_terms }: AccountEntry): Record<string, unknown> {
  return {
    ...(billing_entity && { billing_entity: withoutBank(billing_entity) }),
    ...(payment_terms !== undefined && { payment_terms }),
  }
}

/** What the caller should know of an entry that was taken. `brand`: of the account's owner; undefined where none is known. */
function warningsOf(entry: AccountEntry, request: SyncAccountsRequest, brand: unknown): string[] {
  return [
    ...(brand === undefined
      ? [`This agent does not know the brand and operator of this account: ${NO_DOMAIN} stands for them.`]
      : []),
    ...(entry.payment_terms === undefined
      ? []
      : [
          'payment_terms are kept as you sent them; invoices come from the upstreams, on the terms agreed with each.',
        ]),
    ...(request.push_notification_config === undefined
      ? []
      : ['push_notification_config is not used: the status told here is final.']),
  ]
}

/** The accounts of a caller while the entries of a request change them, each found at once: there may be ten thousand. */
function createHoldings(accounts: readonly HeldAccount[]) {
  const byId = new Map(accounts.map((account) => [account.id, account]))
  const byKey = new Map<string, HeldAccount>()
  const note = (account: HeldAccount) => {
    if (account.stored?.naturalKey !== undefined) byKey.set(account.stored.naturalKey, account)
  }
  accounts.forEach(note)
  return {
    count: () => byId.size,
    all: () => [...byId.values()],
    withId: (id: string) => byId.get(id),
    withKey: (key: string) => byKey.get(key),
    put(account: HeldAccount): HeldAccount {
      byId.set(account.id, account)
      note(account)
      return account
    },
  }
}

type Holdings = ReturnType<typeof createHoldings>

/** The account that an entry is about; an error when the caller has no such account. */
function targetOf(entry: AccountEntry, caller: Caller, held: Holdings): Target | AdcpError {
  const { account, brand, operator, billing } = entry
  const declares = DECLARING.find((name) => entry[name] !== undefined)
  if (account && declares) {
    const message = 'An entry changes settings (account) or declares, not both.'
    const suggestion = `Leave ${DECLARING.join(', ')} out to change settings, or account to declare.`
    return adcpError('INVALID_REQUEST', message, { field: declares, suggestion })
  }
  if (account) {
    const found =
      'account_id' in account ? held.withId(account.account_id) : held.withKey(naturalKey(account))
    if (!found) {
      const suggestion = 'Take an account of list_accounts, or declare it with brand, operator and billing.'
      return adcpError('ACCOUNT_NOT_FOUND', 'There is no such account.', { field: 'account', suggestion })
    }
    const { id, stored } = found
    return {
      id,
      ...(stored && { stored }),
      ...(stored?.naturalKey && { naturalKey: stored.naturalKey }),
      declared: {},
    }
  }
  const absent = DECLARING.find((name) => entry[name] === undefined)
  if (!brand || operator === undefined || billing === undefined) {
    const message = 'An entry has either account, or brand, operator and billing.'
    const suggestion = `Send ${absent} too, or account alone.`
    return adcpError('INVALID_REQUEST', message, { field: absent ?? 'brand', suggestion })
  }
  if (!BILLING.has(billing)) {
    const [near] = nearest(billing, BILLING)
    const suggestion = near ? `Did you mean "${near}"?` : `Send billing as ${[...BILLING].join(' or ')}.`
    const message = 'This agent supports operator and agent billing.'
    const details = { scope: 'capability', supported_billing: [...BILLING] }
    return adcpError('BILLING_NOT_SUPPORTED', message, { field: 'billing', suggestion, details })
  }
  const key = naturalKey({ brand, operator, sandbox: entry.sandbox })
  const stored = held.withKey(key)?.stored
  const id = stored?.accountId ?? accountIdOf(caller.id, key)
  if (!stored && held.count() >= MAX_ACCOUNTS) {
    const suggestion = 'Close accounts that you no longer use: sync_accounts with delete_missing.'
    const message = `You have ${MAX_ACCOUNTS} accounts: no more can be declared.`
    return adcpError('INVALID_REQUEST', message, { field: 'brand', suggestion })
  }
  const declared = { brand, operator, billing, ...(entry.sandbox === true && { sandbox: true }) }
  return { id, naturalKey: key, ...(stored && { stored }), declared }
}

/** The row was rejected; an account that stands stays as it was. `field` is a place in the row (docs/protocol.md#accounts). */
function failed(entry: AccountEntry, errors: readonly AdcpError[]): Result {
  const named = entry.account && 'operator' in entry.account ? entry.account : entry
  return {
    ...(entry.account && 'account_id' in entry.account && { account_id: entry.account.account_id }),
    brand: named.brand ?? { domain: NO_DOMAIN },
    operator: named.operator ?? NO_DOMAIN,
    action: 'failed',
    status: 'rejected',
    errors,
  }
}

function resultOf(
  held: HeldAccount,
  action: 'created' | 'updated' | 'unchanged',
  warnings: readonly string[],
): Result {
  return {
    ...{ brand: { domain: NO_DOMAIN }, operator: NO_DOMAIN },
    account_id: held.id,
    name: accountName(held),
    action,
    status: held.stored?.status ?? 'active',
    ...accountSettings(held),
    ...(warnings.length > 0 && { warnings }),
  }
}

/** The account after the entry; the same object when nothing changes. */
function changed(
  target: Target,
  entry: AccountEntry,
  configs: readonly NotificationConfig[] | undefined,
  caller: string,
): StoredAccount {
  const { id, stored, declared } = target
  const next: StoredAccount = {
    caller,
    accountId: id,
    ...(target.naturalKey !== undefined && { naturalKey: target.naturalKey }),
    settings: { ...stored?.settings, ...declared, ...settable(entry) },
    status: !entry.account && stored?.status === 'closed' ? 'active' : (stored?.status ?? 'active'), // declaring opens again
    notificationConfigs: configs ?? stored?.notificationConfigs ?? [],
  }
  return stored && canonical(stored) === canonical(next) ? stored : next
}

/** What an account was before an entry, and what is kept of it. */
type Kept = {
  account: StoredAccount
  before: StoredAccount | undefined
  configs: WantedSubscriptions['configs'] | undefined
}

type Applying = {
  request: SyncAccountsRequest
  caller: Caller
  held: readonly HeldAccount[]
  rules: ConfigRules
  /** What else is wrong with subscriptions that have the right form. */
  objection(wanted: WantedSubscriptions): NotificationProblem | undefined
  keep(kept: Kept): Promise<void>
}

/**
 * Applies the entries one after the other, so that two entries for one account see each other's changes; in portions, because a
 * thousand of them would stop the thread.
 */
async function apply({ request, caller, rules, objection, keep, ...start }: Applying): Promise<Result[]> {
  const held = createHoldings(start.held)
  const meter = createMeter()
  const named = new Set<string>()
  const results: Result[] = []
  const wrongIn = createConfigCheck(rules)

  async function put(
    account: StoredAccount,
    before: StoredAccount | undefined,
    configs?: WantedSubscriptions['configs'],
  ): Promise<HeldAccount> {
    await keep({ account, before, configs })
    return held.put({ id: account.accountId, stored: account })
  }

  async function pause(): Promise<void> {
    meter.did(ENTRY_UNITS)
    if (meter.isDue()) await nextPortion()
  }

  for (const entry of request.accounts) {
    await pause()
    const target = targetOf(entry, caller, held)
    if ('code' in target) {
      const { brand, operator, sandbox } = entry
      if (brand && operator !== undefined)
        named.add(accountIdOf(caller.id, naturalKey({ brand, operator, sandbox })))
      results.push(failed(entry, [target]))
      continue
    }
    named.add(target.id)
    const { id, stored } = target
    const sent = entry.notification_configs
    const wrong = wrongIn(sent ?? [])
    const configs = wrong.length > 0 ? undefined : sent?.map((config) => keptConfig(config, rules))
    const unproven = configs && objection({ accountId: id, configs })
    const problems = unproven ? [unproven] : wrong
    if (problems.length > 0) {
      const errors = problems.map(({ code, message, path: field, suggestion }) =>
        adcpError(code, message, { field, suggestion }),
      )
      results.push(failed(entry, errors))
      continue
    }
    const next = changed(target, entry, configs, caller.id)
    const was = held.withId(id)
    // A suspended subscription that has proved itself again has changed, although it looks the same.
    const isSame = next === stored && !(configs && was?.suspended)
    const action = isSame ? 'unchanged' : stored || target.naturalKey === undefined ? 'updated' : 'created'
    const now = isSame ? (was ?? { id, stored: next }) : await put(next, stored, configs)
    results.push(resultOf(now, action, warningsOf(entry, request, next.settings.brand)))
  }
  if (!request.delete_missing) return results
  for (const { id, stored } of held.all()) {
    if (stored?.naturalKey === undefined || stored.status === 'closed' || named.has(id)) continue
    await pause()
    results.push(resultOf(await put({ ...stored, status: 'closed' }, stored), 'updated', []))
  }
  return results
}

function render(request: SyncAccountsRequest, accounts: readonly Result[]): Answer {
  const failures = accounts.filter(({ action }) => action === 'failed').length
  const verb = request.dry_run ? 'would be synced' : 'synced'
  const done = accounts.length - failures
  const message = `${howMany(done, 'account')} ${verb}${failures > 0 ? `, ${failures} failed` : ''}.`
  return { kind: 'answer', message, fields: { ...(request.dry_run && { dry_run: true }), accounts } }
}

type SyncAccountsOptions = { store: Store; subscribing: Subscribing }

export function syncAccounts({ store, subscribing }: SyncAccountsOptions): Task<typeof SyncAccountsRequest> {
  async function heldBy(
    caller: Caller,
    { accounts, subscriptions }: Pick<Repositories, 'accounts' | 'subscriptions'>,
  ) {
    return heldAccounts(caller, await accounts.list(caller.id), await subscriptions.ofCaller(caller.id))
  }

  /** Asks the urls of new subscriptions before anything is written, so that no transaction waits for a stranger. */
  async function proved(request: SyncAccountsRequest, caller: Caller): Promise<Proofs> {
    if (!request.accounts.some((one) => one.notification_configs?.length)) return NOTHING_ASKED
    const wanted: WantedSubscriptions[] = []
    await apply({
      ...{ request, caller, rules: subscribing.rules(), held: await heldBy(caller, store) },
      objection(one) {
        wanted.push(one)
        return undefined
      },
      keep: async () => {},
    })
    return await subscribing.prove(caller.id, wanted)
  }

  async function sync(request: SyncAccountsRequest, caller: Caller): Promise<Answer> {
    const keyed = keyedRequest('sync_accounts', caller, request)
    const bound = await store.idempotency.find(keyed)
    const proofs = bound || request.dry_run ? NOTHING_ASKED : await proved(request, caller)
    // Key, accounts and answer are one unit of work: a request is applied once, whole or not at all.
    const answer = await store.write(async (repositories) => {
      const { idempotency, accounts } = repositories
      const binding = await idempotency.bind(keyed)
      if (binding.kind === 'conflict') return keyConflict()
      if (binding.kind === 'open') return stillRunning()
      if (binding.kind === 'answered') {
        return { ...render(request, binding.answer as Result[]), replayed: true }
      }
      // One request of a caller at a time reads what is there and writes what it becomes: of two at once, each would write back
      // what the other changed, and find room for all it wants.
      await repositories.jobs.inTurn([`accounts of ${caller.id}`])
      const isWithin = boundedSubscriptions(await repositories.subscriptions.ofCaller(caller.id))
      const results = await apply({
        ...{ request, caller, rules: subscribing.rules(), held: await heldBy(caller, repositories) },
        objection: (wanted) => (request.dry_run ? undefined : (proofs.problemOf(wanted) ?? isWithin(wanted))),
        async keep({ account, before, configs }) {
          if (request.dry_run) return
          await accounts.put(account)
          if (!configs) return
          const { accountId } = account
          const wanted = { accountId, configs, before: before?.notificationConfigs ?? [] }
          await subscribing.keep(repositories, caller.id, wanted, proofs)
        },
      })
      await idempotency.answer(keyed.caller, keyed.key, results)
      return render(request, results)
    })
    if (proofs !== NOTHING_ASKED) subscribing.onSubscribed()
    return answer
  }

  return {
    name: 'sync_accounts',
    title: 'Declare accounts',
    description:
      'Declares the accounts you act for (brand, operator, billing) or changes settings of an account you have ' +
      '(account). Each entry has its own result; one that failed says why and changes nothing. notification_configs ' +
      'replaces the whole list: each names a url that proves itself when asked, and is told what changes.',
    request: SyncAccountsRequest,
    response: SyncAccountsResponse,
    mutating: true,
    handle: (input, { caller }) => unlessStorageDown(() => sync(input, caller)),
  }
}
