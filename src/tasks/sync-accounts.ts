/**
 * sync_accounts: a caller declares the accounts it acts for, and settings of accounts it has (schemas
 * account/sync-accounts). This agent invoices nobody: it keeps what was declared and passes natural keys to upstreams.
 */
import { accountIdOf, naturalKey } from '../activation/accounts.js'
import { keyConflict, stillRunning, unlessStorageDown } from '../activation/activation.js'
import { type Answer, adcpError, howMany } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { invalidRequest } from '../adcp/schema.js'
import { SyncAccountsRequest, SyncAccountsResponse } from '../adcp/task-schemas.js'
import {
  type ConfigRules,
  createConfigCheck,
  keptConfig,
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
import { keyedRequest } from '../store/records/idempotency.js'
import type { Repositories, Store } from '../store/store.js'
import {
  accountAfter,
  accountResult,
  type EntryResult,
  entryTarget,
  entryWarnings,
  failedResult,
} from './account-entry.js'
import { createHoldings } from './account-holdings.js'
import { type HeldAccount, heldAccounts } from './held-account.js'
import { pushFaults } from './push-faults.js'
import type { Task } from './task.js'

const ENTRY_UNITS = PORTION / 8

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
async function apply({
  request,
  caller,
  rules,
  objection,
  keep,
  ...start
}: Applying): Promise<EntryResult[]> {
  const held = createHoldings(start.held)
  const meter = createMeter()
  const named = new Set<string>()
  const results: EntryResult[] = []
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
    const target = entryTarget(entry, caller, held)
    if ('code' in target) {
      const { brand, operator, sandbox } = entry
      if (brand && operator !== undefined)
        named.add(accountIdOf(caller.id, naturalKey({ brand, operator, sandbox })))
      results.push(failedResult(entry, [target]))
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
      results.push(failedResult(entry, errors))
      continue
    }
    const next = accountAfter(target, entry, configs, caller.id)
    const was = held.withId(id)
    // A suspended subscription that has proved itself again has changed, although it looks the same.
    const isSame = next === stored && !(configs && was?.suspended)
    const action = isSame ? 'unchanged' : stored || target.naturalKey === undefined ? 'updated' : 'created'
    const now = isSame ? (was ?? { id, stored: next }) : await put(next, stored, configs)
    results.push(accountResult(now, action, entryWarnings(entry, request, next.settings.brand)))
  }
  if (!request.delete_missing) return results
  for (const stored of held.missing(named)) {
    await pause()
    results.push(accountResult(await put({ ...stored, status: 'closed' }, stored), 'updated', []))
  }
  return results
}

function render(request: SyncAccountsRequest, accounts: readonly EntryResult[]): Answer {
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
        return { ...render(request, binding.answer as EntryResult[]), replayed: true }
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
    handle(input, { caller }) {
      const faults = pushFaults(input)
      if (faults.length > 0) return { kind: 'refused', error: invalidRequest(faults) }
      return unlessStorageDown(() => sync(input, caller))
    },
  }
}
