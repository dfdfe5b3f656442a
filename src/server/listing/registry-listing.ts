/**
 * GET /api/registry/agents: the federated listing (specification, "Registry listing"). Signals agents are the upstreams
 * of the roster, with health that we measured; agents of other types are passed through from the registries. Another
 * Tributary that names us as its registry federates the same upstreams. What the registries list is read when somebody asks us.
 * Only words from closed lists are passed on, so callers cannot make us ask arbitrary questions.
 */
import type { Send } from '../../net/send.js'
import type { UpstreamStatus } from '../../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../../upstreams/roster/roster.js'
import {
  agentsIn,
  describes,
  type Listed,
  meant,
  type Shown,
  shownAsListed,
  shownUpstream,
} from './listed-agents.js'
import { isBadgeQuery, isMeasurementQuery, type ListingQuery, typesOf } from './listing-query.js'
import { createRegistrySource, type ListingsFound, type RegistrySourceOptions } from './registry-source.js'
import { createToolSurvey } from './tool-survey.js'
import { writtenListing } from './written-listing.js'

const SURVEY_MS = 2_000 // tools that are not known by then come with the next request

type RegistryListingOptions = RegistrySourceOptions & {
  sendToUpstreams: Send
  roster(): Roster
  statuses(): readonly UpstreamStatus[]
  /** The last answer that each agent (canonical url) gave to anything. */
  lastAnswer(agentUrl: string): { at: number; ms: number } | undefined
}

/** The question passed on to registries: only words from closed sets. */
function questionOf(query: ListingQuery): URLSearchParams {
  const question = new URLSearchParams()
  const [type] = typesOf(query) ?? []
  // The registry may know values that we do not.
  if (type && type !== 'unknown') question.set('type', type)
  const flags = new Set(query.flags)
  if (isMeasurementQuery(query) || query.operation) flags.add('capabilities')
  if (isBadgeQuery(query)) flags.add('compliance')
  for (const flag of [...flags].sort()) question.set(flag, 'true')
  for (const axis of [...query.axes].sort()) question.append('verification_mode', axis)
  if (query.verified) question.set('verified', 'true')
  if (query.operation) question.set('creative_operation', query.operation)
  return question
}

/** By upstream, the record that describes it in the roster too: another may be of somebody whom policy does not admit. */
function describing(
  answers: ListingsFound['answers'],
  entries: readonly RosterEntry[],
  query: ListingQuery,
): Map<string, Listed> {
  const upstreams = new Map(entries.map((entry) => [`${entry.source} ${entry.agentUrl}`, entry]))
  const records = new Map<string, Listed>()
  for (const { source, directory } of answers) {
    for (const listed of agentsIn(directory)) {
      const { agentUrl } = listed.agent
      const entry = upstreams.get(`${source} ${agentUrl}`)
      if (entry && !records.has(agentUrl) && describes(listed, entry, query)) records.set(agentUrl, listed)
    }
  }
  return records
}

/**
 * The first registry to list an agent describes it; one agent may stand there once a type. `unknown` is no type of an agent that
 * somebody knows.
 */
function deduplicated(
  listed: readonly Listed[],
  isUpstream: (agentUrl: string) => boolean,
): Map<string, Listed> {
  const known = new Set(listed.flatMap(({ agent }) => (agent.type === 'unknown' ? [] : agent.agentUrl)))
  const byAgent = new Map<string, Listed>()
  for (const each of listed) {
    const { agentUrl, type } = each.agent
    if (type === 'unknown' && (known.has(agentUrl) || isUpstream(agentUrl))) continue
    const key = `${type} ${agentUrl}`
    if (!byAgent.has(key)) byAgent.set(key, each)
  }
  return byAgent
}

export function createRegistryListing(options: RegistryListingOptions) {
  const { roster, statuses, lastAnswer, sendToUpstreams, now, pause } = options
  const source = createRegistrySource(options)
  const survey = createToolSurvey({ send: sendToUpstreams, now })

  async function surveyed(): Promise<void> {
    const known = new Map(statuses().map((status) => [status.id, status]))
    const updates = roster().entries.map((entry) => {
      const { url = '', protocol } = known.get(entry.id) ?? {}
      return protocol ? survey.update(entry, { url, protocol }) : undefined
    })
    await Promise.race([Promise.all(updates), pause(SURVEY_MS)])
  }

  function upstreams(listed: ReadonlyMap<string, Listed>, { flags }: ListingQuery): Shown[] {
    const byId = new Map(statuses().map((status) => [status.id, status]))
    return roster().entries.map((entry) => {
      const status = byId.get(entry.id)
      const answered = lastAnswer(entry.agentUrl)
      const tools = survey.tools(entry.agentUrl)
      const measured = { ...(status && { status }), ...(answered && { answered }), ...(tools && { tools }) }
      return shownUpstream(entry, measured, listed.get(entry.agentUrl), flags)
    })
  }

  /** The answer to a query, as JSON. `via` is the asker's header of that name. */
  async function list(query: ListingQuery, via: string): Promise<Buffer> {
    const types = typesOf(query)
    const wantsSignals = !types || types.includes('signals')
    const needsTools = query.flags.has('health') || query.flags.has('capabilities') || query.operation
    const [{ answers, silent }] = await Promise.all([
      types?.length === 0 ? { answers: [], silent: 0 } : source.find(questionOf(query), via),
      wantsSignals && needsTools ? surveyed() : undefined,
    ])
    const { entries } = roster()
    const ours = new Set(entries.map(({ agentUrl }) => agentUrl))
    const all = answers.flatMap(({ directory }) => agentsIn(directory))
    const found = deduplicated(all, (agentUrl) => ours.has(agentUrl))
    const others = [...found.values()].filter(
      ({ agent: { type } }) => type !== 'signals' && (!types || types.includes(type)),
    )
    const own = wantsSignals ? upstreams(describing(answers, entries, query), query) : []
    const agents = [...own, ...shownAsListed(others, query.flags)].filter(meant(query))
    const leftOut = answers.reduce((sum, { directory }) => sum + directory.leftOut, 0)
    return writtenListing(agents, { silent, leftOut })
  }

  return { list, close: source.close }
}
