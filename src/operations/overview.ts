/** What an operator sees at a glance: the feed, what each upstream gives, what registries and providers say. */
import type { ProviderState } from '../authz/rules/state.js'
import { accountNamed } from '../config/callers.js'
import type { Contribution } from '../explain/contributions.js'
import { fileProblemText, problemText } from '../explain/remedies.js'
import type { Overview } from '../server/console.js'
import type { Revisions } from '../server/operations.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { UpstreamStatus } from '../upstreams/agent/status.js'
import type { ScopeStatus } from '../upstreams/mirror/scope-status.js'
import type { RegistryStatus } from '../upstreams/roster/registries.js'
import { UPSTREAM_HEADER, upstreamTable } from './upstream-table.js'

const MOST_ROWS = 500 // of one table: a page that people read

type Seen = {
  snapshot: Snapshot | undefined
  publishedAt: number | undefined
  statuses: readonly UpstreamStatus[]
  contributions: readonly Contribution[]
  registries: readonly RegistryStatus[]
  providers: readonly ProviderState[]
  revision: string
  revisions: Revisions
  accounts: readonly ScopeStatus[]
}

const moment = (ms: number | undefined) => (ms === undefined ? '' : new Date(ms).toISOString())
const words = (problem: Parameters<typeof problemText>[0] | undefined) =>
  problem ? problemText(problem) : ''

function revisionWords({ built, wanted, behindMs }: Revisions): string {
  return built === wanted
    ? `${built}: everything is published`
    : `${built} of ${wanted}, behind for ${(behindMs / 1_000).toFixed(1)} s`
}

function section(title: string, header: readonly string[], rows: readonly string[][]) {
  const left = rows.length - MOST_ROWS
  return { title: left > 0 ? `${title} (${left} more)` : title, header, rows: rows.slice(0, MOST_ROWS) }
}

/** Providers that prove nothing come first: they are why signals are missing. */
function providerRows(providers: readonly ProviderState[]): string[][] {
  const inTrouble = ({ problem }: ProviderState) => (problem ? 0 : 1)
  return [...providers]
    .sort((a, b) => inTrouble(a) - inTrouble(b) || (a.domain < b.domain ? -1 : 1))
    .map(({ domain, document, confirmedAt, problem, heldPointer }) => [
      domain,
      document ? 'held' : 'none',
      moment(confirmedAt),
      [
        problem ? fileProblemText(problem) : '',
        heldPointer ? `its new pointer is held until ${moment(heldPointer.adoptAt)}` : '',
      ]
        .filter((each) => each !== '')
        .join('; '),
    ])
}

export function overviewOf(seen: Seen): Overview {
  const { snapshot, publishedAt, registries, revision } = seen
  return {
    facts: [
      ['signals', String(snapshot?.shown.length ?? 0)],
      ['snapshot', snapshot?.id ?? 'none yet'],
      ['published', moment(publishedAt)],
      ['configuration', revision],
      ['revision', revisionWords(seen.revisions)],
    ],
    sections: [
      section('Upstreams', UPSTREAM_HEADER, upstreamTable(seen.statuses, seen.contributions)),
      section(
        'Accounts',
        ['caller and account', 'upstream', 'state', 'prices', 'trouble'],
        seen.accounts.map(({ scope, id, state, rateCard, listings, problem }) => [
          accountNamed(scope).join(', '),
          id,
          state,
          rateCard ? 'the rate card' : `${listings} rows of its own`,
          words(problem),
        ]),
      ),
      section(
        'Registries',
        ['registry', 'agents', 'read', 'trouble'],
        registries.map(({ url, agents, fetchedAt, diagnostics, problem }) => [
          url,
          String(agents ?? 0),
          moment(fetchedAt),
          [words(problem), ...diagnostics].filter((each) => each !== '').join('; '),
        ]),
      ),
      section('Providers', ['domain', 'file', 'confirmed', 'trouble'], providerRows(seen.providers)),
    ],
  }
}
