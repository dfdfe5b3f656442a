/**
 * What a provider's adagents.json says about (provider, signal, agent): the closed words of docs/house.md and
 * docs/protocol.md#provider-files.
 */
export type Unverifiable =
  | 'no_file'
  | 'unreachable'
  | 'bad_redirect' // too many, or out of the provider's registrable domain
  | 'invalid_file'
  | 'too_large'
  | 'bad_pointer'
  | 'held_pointer' // a changed pointer is not yet stable, and no earlier file is left to go by
  | 'rollback' // the only file offered is older than the one last held
  | 'bad_domain'
  | 'expired' // the last good file passed its hard cap
  | 'too_many_domains' // the upstreams that name it name more domains than are looked at
  | 'over_budget' // its file takes more than its share of what all files may take
  | 'pending' // not fetched yet

/**
 * Decided all the same: that there is no file is the provider's own word, and a name that is no domain can have none. Where
 * the reason is another, nobody has said anything about the signals.
 */
const DECIDED = ['no_file', 'bad_domain'] as const

/** Why nobody has decided on a signal that is withheld. */
export type Undecided = Exclude<Unverifiable, (typeof DECIDED)[number]>

export function isUndecided(reason: Unverifiable): reason is Undecided {
  return !DECIDED.some((one) => one === reason)
}

export type Unauthorized =
  | 'signal_not_published'
  | 'agent_not_listed'
  | 'agent_not_listed_for_signal'
  | 'outside_window'

export type Verdict =
  | { outcome: 'authorized'; entries: readonly number[]; countries?: readonly string[] }
  | { outcome: 'unauthorized'; reason: Unauthorized; hint?: string }
  | { outcome: 'unverifiable'; reason: Unverifiable }
  | { outcome: 'not_applicable' }

export type Policy = 'strict' | 'lenient' | 'observe'
