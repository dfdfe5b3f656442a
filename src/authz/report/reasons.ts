/** What each reason means and who can do something about it: the words of `authz`, `explain` and docs/authorization.md. */
import type { Unauthorized, Unverifiable } from '../verdict.js'

export const VERDICT_REASONS: Readonly<Record<Unauthorized | Unverifiable, string>> = {
  signal_not_published: 'the provider does not publish a signal with this id in signals[]',
  agent_not_listed: 'no entry in authorized_agents[] has the url of this agent',
  agent_not_listed_for_signal:
    "entries have the url of this agent, but none names this signal's id or one of its tags",
  outside_window: 'an entry grants this signal, but not at this time',
  no_file: 'the provider publishes no adagents.json',
  unreachable: 'the file of the provider could not be fetched',
  bad_redirect: "the file redirects too often or out of the provider's registrable domain",
  invalid_file: 'what the provider publishes is not a readable adagents.json',
  too_large: 'the file exceeds 5 MB at the well-known url or 20 MB where a pointer leads',
  bad_pointer: 'the file points to a place that is not an https url, points on, or redirects',
  held_pointer: 'a changed pointer is on hold for 24 hours, and no earlier file is held',
  rollback: 'the file is older than the one last held, and that one is gone',
  bad_domain: 'the domain of the provider is no registrable domain name',
  expired: 'the last good file is past its cap: 24 hours of failures, or 7 days unconfirmed',
  too_many_domains:
    'the agents that name this domain name more than limits.provider_domains_per_upstream allows',
  over_budget:
    'files of this registrable domain, or of all domains that its agents name, take more than their share of limits.provider_bytes',
  pending: 'the file has not been fetched yet',
}
