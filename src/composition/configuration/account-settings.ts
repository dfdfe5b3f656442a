/** The accounts of callers in a configuration: where each differs from the public, and what is sent upstream in its name. */
import type { AccountReference } from '../../adcp/caller.js'
import { type CallerKey, overlayName } from '../../config/callers.js'
import type { Config } from '../../config/values.js'
import type { Reader } from '../../feed/query.js'
import { createLots } from '../../store/database/lots.js'
import type { Store } from '../../store/store.js'
import type { DeclaredAccounts } from '../../tasks/read-account.js'
import type { Auth } from '../../upstreams/agent/agent.js'
import type { Scope } from '../../upstreams/mirror/scope-setting.js'

/** What is sent to one upstream in an account's name. */
type Credential = { account?: AccountReference; auth?: Auth }

export type Account = {
  /** The feed's name of its layer, and the name of its scopes. */
  name: string
  /** Whose account it is. */
  caller: string
  /** By upstream: its canonical url. */
  upstreams: ReadonlyMap<string, Credential>
}

export type AccountMap = ReadonlyMap<string, Account>

function accountOf({ id, accounts, credentials }: CallerKey, account: string): Account {
  const references = accounts[account] ?? {}
  const upstreams = new Map<string, Credential>()
  for (const upstream of new Set([...Object.keys(references), ...Object.keys(credentials)])) {
    const reference = references[upstream]
    const auth = credentials[upstream]
    upstreams.set(upstream, { ...(reference && { account: reference }), ...(auth && { auth }) })
  }
  return { name: overlayName(id, account), caller: id, upstreams }
}

/** A question asks for an account once for each upstream: a configuration's accounts are put together once. */
const known = new WeakMap<Config, AccountMap>()

/** Every account of every caller, by name. */
export function accountsOf(config: Config): AccountMap {
  const made =
    known.get(config) ??
    new Map(
      config.callers.keys
        .flatMap((key) => Object.keys(key.accounts).map((account) => accountOf(key, account)))
        .map((account) => [account.name, account]),
    )
  known.set(config, made)
  return made
}

/** The scopes that are read from each upstream in addition to the public one. */
export function scopesOf(accounts: AccountMap): Map<string, Scope[]> {
  const scopes = new Map<string, Scope[]>()
  for (const { name, caller, upstreams } of accounts.values()) {
    for (const [upstream, credential] of upstreams) {
      scopes.set(upstream, [...(scopes.get(upstream) ?? []), { name, caller, ...credential }])
    }
  }
  return scopes
}

/** What is sent to an upstream (canonical url) for a reader's account; for everybody else only our own credential. */
export function accountAccess(config: Config, { account }: Reader, agentUrl: string) {
  if (account === undefined) return undefined
  const credential = accountsOf(config).get(account)?.upstreams.get(agentUrl)
  return credential && { scope: account, ...credential }
}

/** The caller's own credential for an upstream (canonical url), where the configuration has one. */
export function credentialOf({ callers }: Config, caller: string, agentUrl: string): Auth | undefined {
  const credentials = callers.keys.find(({ id }) => id === caller)?.credentials
  return credentials && Object.hasOwn(credentials, agentUrl) ? credentials[agentUrl] : undefined
}

/**
 * Accounts that callers declared themselves. What a caller told us about a configured account is not a declaration:
 * once the account is removed from the configuration, no caller has it. Those that are asked for meanwhile are read as one.
 */
export function declaredAccountsOf({ accounts }: Pick<Store, 'accounts'>): DeclaredAccounts {
  const read = createLots(accounts.getAll)
  return async (caller, accountId) => {
    const stored = await read({ caller, accountId })
    return stored?.naturalKey !== undefined && stored.status === 'active'
  }
}
