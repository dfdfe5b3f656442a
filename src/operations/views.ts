/**
 * What an operator looks at, as plain data: the parts of the product as they are now, without keys, credentials or the texts of
 * callers. Each view is one path of the console's JSON (docs/console.md); what callers did is in `activity.ts`.
 */
import { shownUrl } from '../adcp/redaction.js'
import { iso } from '../authz/report.js'
import { type HeldDocument, type ProviderState, shownFileUrl } from '../authz/rules/verdict.js'
import type { Config } from '../config/values.js'
import { leftOutText, toldProblem, verdictWords } from '../explain/remedies.js'
import type { Contribution, UpstreamExplanation } from '../explain/upstream.js'
import type { Feed } from '../feed/feed.js'
import { accountNamed } from '../feed/query.js'
import type { Egress } from '../net/egress.js'
import { nameAt, nameCount } from '../process/shared-memory.js'
import type { Revisions, RunningConfiguration } from '../server/monitoring.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { ScopeStatus, UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { RegistryStatus } from '../upstreams/roster/registries.js'
import type { Roster } from '../upstreams/roster/roster.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Span, UpstreamHistory } from './upstream-history.js'

const MOST_SHOWN = 500 // providers, upstreams, agents that are left out
const AGENTS_NAMED = 10 // of those that a provider's file lists
const STATES = ['absent', 'stale', 'starting', 'fresh'] as const

/** The parts of the product as they are now; read at a scrape, a view or a question, so after everything has started. */
export type ObservedState = {
  config(): Config
  /** Which configuration is in force and, when the file has another, why that is not. */
  configuration(): RunningConfiguration
  roster(): Roster
  registries(): readonly RegistryStatus[]
  /** Of the public scopes. */
  statuses(): readonly UpstreamStatus[]
  /** Of the accounts' scopes. */
  accountStatuses(): readonly ScopeStatus[]
  memory(): ReturnType<Upstreams['memory']>
  /** Bytes of answers of upstreams, registries and providers that are being read. */
  underWay: Egress['underWay']
  providers(): readonly ProviderState[]
  /** Of the public layer. */
  snapshot(): Snapshot | undefined
  publishedAt(): number | undefined
  /** Replaced snapshots that page walks may go on in. */
  retained(): ReturnType<Feed['retained']>
  contributions(): Promise<readonly Contribution[]>
  /** How far the published feed is behind what it is made from. */
  revisions(): Revisions
}

export type ViewSources = ObservedState & {
  /** Explanations of upstreams of the roster, by their canonical urls (explain/upstream.ts). */
  upstreams(agentUrls: readonly string[]): Promise<UpstreamExplanation[]>
  lastAnswer(agentUrl: string): { at: number; ms: number } | undefined
  /** Callers that hit their rate limit, with how often since the start; the most often first. */
  limitedCallers(): readonly (readonly [caller: string, times: number])[]
  /** Ids of callers that an operator suspended. */
  suspended(): ReadonlySet<string>
  history: UpstreamHistory
}

/** A view for an operator; undefined when there is nothing of that name. */
type View = (params: URLSearchParams) => object | undefined | Promise<object | undefined>

const at = (ms: number | undefined) => (ms === undefined ? undefined : iso(ms))

function registryView({
  url,
  agents = 0,
  fetchedAt,
  diagnostics,
  problem,
  unvouched,
  leaveAt,
}: RegistryStatus) {
  return {
    ...{ url: shownUrl(url), agents, read_at: at(fetchedAt), diagnostics, unvouched, leave_at: at(leaveAt) },
    ...(problem && { problem: toldProblem(problem) }),
  }
}

/** How many signals and agents a provider's file lists, and the first agents by url. */
function listedIn({ tables: { signals, agents } }: HeldDocument) {
  const count = nameCount(agents)
  const named = Array.from({ length: Math.min(count, AGENTS_NAMED) }, (_, number) => nameAt(agents, number))
  return { signals: signals.name.length, agents: count, agent_urls: named }
}

function fileProblem({ reason, message, since }: NonNullable<ProviderState['problem']>) {
  const [means, remedy] = verdictWords(reason) ?? []
  return { reason, ...(means && { means, remedy }), message, since: iso(since) }
}

/** What the reasons of withheld offers mean, by the reason. */
function meansOf(upstreams: readonly UpstreamExplanation[]): Record<string, string> {
  const reasons = new Set(upstreams.flatMap((upstream) => Object.keys(upstream.reasons)))
  return Object.fromEntries(
    [...reasons].flatMap((reason) => {
      const [means] = verdictWords(reason) ?? []
      return means === undefined ? [] : [[reason, means]]
    }),
  )
}

function providerView({
  domain,
  document,
  confirmedAt,
  expiresAt,
  nextAttemptAt,
  problem,
  heldPointer,
}: ProviderState) {
  return {
    domain,
    ...(document && {
      file: {
        url: shownFileUrl(document.url),
        bytes: document.bytes.byteLength,
        fetched_at: iso(document.fetchedAt),
        sha256: document.digest,
        ...listedIn(document),
      },
    }),
    ...{ confirmed_at: at(confirmedAt), proves_until: at(expiresAt), next_attempt_at: at(nextAttemptAt) },
    ...(problem && { problem: fileProblem(problem) }),
    ...(heldPointer && {
      held_pointer: { url: shownFileUrl(heldPointer.url), adopt_at: iso(heldPointer.adoptAt) },
    }),
  }
}

/** Providers in trouble come first, because they may be why signals are missing; then by domain. */
function inOrder(one: ProviderState, other: ProviderState): number {
  return Number(!one.problem) - Number(!other.problem) || (one.domain < other.domain ? -1 : 1)
}

/** Upstreams that give nothing come first, then the stale ones; those of one state by id. */
function worstFirst(one: UpstreamStatus, other: UpstreamStatus): number {
  return STATES.indexOf(one.state) - STATES.indexOf(other.state) || (one.id < other.id ? -1 : 1)
}

function countedStates(found: readonly UpstreamStatus[]): Record<(typeof STATES)[number], number> {
  const counts = { absent: 0, stale: 0, starting: 0, fresh: 0 }
  for (const { state } of found) counts[state] += 1
  return counts
}

/** The views by the name that is the last part of their path. */
export function createViews(sources: ViewSources) {
  const { history } = sources

  /** The bounds for all upstreams and providers together: what is in use, and how often each was hit since the start. */
  function limitsNow() {
    const { usedBytes, limitBytes, evictions } = sources.memory()
    const { limits } = sources.config()
    const files = new Map<string, number>()
    const states = sources.providers()
    for (const { document } of states) if (document) files.set(document.digest, document.bytes.byteLength)
    const ofFiles = [...files.values()].reduce((sum, bytes) => sum + bytes, 0)
    const refused = states.filter(({ problem }) => problem?.reason === 'over_budget').length
    const { bytes, givenUp } = sources.underWay
    return [
      { name: 'memory', used_bytes: usedBytes, limit_bytes: limitBytes, hits: evictions },
      { name: 'under_way', used_bytes: bytes(), limit_bytes: limits.underWayBytes, hits: givenUp() },
      { name: 'provider_bytes', used_bytes: ofFiles, limit_bytes: limits.providerBytes, hits: refused },
    ]
  }

  /** How many rows of all upstreams were refused, by reason. */
  function refusedRows(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { dropped } of sources.statuses()) {
      for (const [reason, count] of Object.entries(dropped)) counts[reason] = (counts[reason] ?? 0) + count
    }
    return counts
  }

  const overview: View = () => {
    const snapshot = sources.snapshot()
    const { built, wanted, behindMs } = sources.revisions()
    const { file, shown } = sources.config()
    return {
      feed: {
        ...{
          signals: snapshot?.shown.length ?? 0,
          snapshot: snapshot?.id,
          published_at: at(sources.publishedAt()),
        },
        revision: { built, wanted, behind_ms: behindMs },
      },
      configuration: { ...sources.configuration(), file, content: shown() },
      limits: limitsNow(),
      refused_rows: refusedRows(),
      limited_callers: sources.limitedCallers().map(([caller, times]) => ({ caller, times })),
    }
  }

  /** `id`: that one alone; `q`: those with these letters in their id, name or url. */
  const upstreams: View = async (params) => {
    const [id, part] = [params.get('id'), (params.get('q') ?? '').toLowerCase()]
    const excluded = sources
      .roster()
      .excluded.map(({ url, reason }) => ({ url: shownUrl(url), reason, means: leftOutText(reason) }))
      .filter(({ url }) => url.toLowerCase().includes(part))
    const isAsked = (one: UpstreamStatus) =>
      id === null
        ? [one.id, one.name, one.agentUrl].some((text) => text.toLowerCase().includes(part))
        : one.id === id
    const found = sources.statuses().filter(isAsked)
    const shown = [...found].sort(worstFirst).slice(0, MOST_SHOWN)
    const told = await sources.upstreams(shown.map(({ agentUrl }) => agentUrl))
    return {
      total: found.length,
      states: countedStates(found),
      upstreams: told.map((upstream) => {
        const last = sources.lastAnswer(upstream.agent_url)
        return { ...upstream, ...(last && { last_answer: { at: iso(last.at), ms: last.ms } }) }
      }),
      means: meansOf(told),
      excluded: excluded.slice(0, MOST_SHOWN),
      excluded_total: excluded.length,
      registries: sources.registries().map(registryView),
    }
  }

  const providers: View = (params) => {
    const part = (params.get('q') ?? '').toLowerCase()
    const found = sources.providers().filter(({ domain }) => domain.includes(part))
    return {
      total: found.length,
      providers: [...found].sort(inOrder).slice(0, MOST_SHOWN).map(providerView),
    }
  }

  const callers: View = () => {
    const { anonymous, keys, jwt, rateLimit } = sources.config().callers
    return {
      anonymous,
      ...(jwt && { jwt: { issuer: jwt.issuer, audience: jwt.audience } }),
      rate_limit: { per_second: rateLimit.perSecond, burst: rateLimit.burst },
      callers: keys.map(({ id, role, destinations, accounts, credentials, tokenSha256, signing }) => ({
        ...{ id, role, destinations, accounts: Object.keys(accounts), has_key: tokenSha256 !== undefined },
        suspended: sources.suspended().has(id),
        credentials_for: Object.keys(credentials),
        signs: signing === undefined ? 'no' : signing.required ? 'must' : 'may',
      })),
      accounts: sources
        .accountStatuses()
        .map(({ scope, id, state, rateCard, listings, problem, confirmedAt }) => {
          const [caller, account] = accountNamed(scope)
          return {
            ...{
              caller,
              account,
              upstream: id,
              state,
              rate_card: rateCard,
              rows: listings,
              confirmed_at: at(confirmedAt),
            },
            ...(problem && { problem: toldProblem(problem) }),
          }
        }),
    }
  }

  const upstreamHistory: View = (params) => {
    const span: Span = params.get('span') === 'days' ? 'days' : 'hours'
    return history.of(params.get('upstream') ?? '', span)
  }

  return { overview, upstreams, providers, callers, history: upstreamHistory } satisfies Record<string, View>
}

export type Views = ReturnType<typeof createViews>
