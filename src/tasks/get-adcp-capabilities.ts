/**
 * get_adcp_capabilities, which the specification calls get_protocol_capabilities: what this agent can do, the same
 * for every caller (docs/protocol.md#versions). It claims only what works now.
 */
import { howMany, isSince32, MAJOR, type Preview, RELEASES, type Release } from '../adcp/answer.js'
import { FEED_EVENTS, SIGNAL_TYPES } from '../adcp/signal.js'
import { CapabilitiesRequest, CapabilitiesResponse } from '../adcp/task-schemas.js'
import type { Algorithm } from '../signing/key.js'
import { WEBHOOKS } from '../signing/signature.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Task } from './task.js'

const MAX_DOMAINS = 10_000 // named in an answer; of more, sorting them would take longer than the rest
const RETRY_HORIZON_SECONDS = 86_400 // a notice is given up after a day

export type AgentFacts = {
  /** Provider domains whose signals are in the feed, sorted. */
  providerDomains: readonly string[]
  /** Whether any signal of the feed is first-party data of its source. */
  servesOwned: boolean
  /** Whether any caller has an account that may be priced off the rate card. */
  accountOverlays: boolean
  signing?: SigningFacts
  /** Whether changes of the feed are told to those who subscribe to them. */
  feedWebhooks?: boolean
}

/** What kinds of signals a snapshot shows. Withheld signals do not count. */
type Inventory = Pick<AgentFacts, 'providerDomains' | 'servesOwned'>

const counted = new WeakMap<Snapshot, Inventory>()

/** Counted once for each snapshot. The domains are sorted unless they are more than an answer names. */
export function inventoryOf(snapshot: Snapshot): Inventory {
  const known = counted.get(snapshot)
  if (known) return known
  const { domain, domains, type } = snapshot.facts
  const owned = SIGNAL_TYPES.indexOf('owned')
  const seen = new Uint8Array(domains.length)
  let servesOwned = false
  for (const entry of snapshot.shown) {
    seen[domain[entry] as number] = 1
    if (type[entry] === owned) servesOwned = true
  }
  const shown = domains.filter((name, at) => name !== '' && seen[at])
  const inventory = { providerDomains: shown.length > MAX_DOMAINS ? shown : shown.sort(), servesOwned }
  counted.set(snapshot, inventory)
  return inventory
}

/** What is signed and verified. A claim needs the place where our keys are found (schema, `required_when`). */
export type SigningFacts = {
  /** The operator's brand.json. */
  brandJsonUrl?: string
  /** The algorithm of our webhooks' signatures; absent when they are not signed. */
  algorithm?: Algorithm
  /** Whether callers' signatures are verified, and whether every caller must sign what changes something. */
  requests?: { required: boolean }
}

type CapabilitiesOptions = {
  facts: () => AgentFacts
  /** How long a key replays its answer. */
  replayTtlSeconds: number
  /** Names of the tasks that change something. */
  changing: readonly string[]
  /** What tests may force; absent when there is no comply_test_controller. */
  testScenarios?: (release: Release) => readonly string[]
  /** Releases that are not final and are served all the same, over MCP. */
  previews: readonly Preview[]
}

/** The blocks about signatures, as far as they are true. */
function signingFields(
  { brandJsonUrl, algorithm, requests }: SigningFacts,
  changing: readonly string[],
  release: Release,
) {
  return {
    ...(brandJsonUrl && { identity: { brand_json_url: brandJsonUrl } }),
    ...(brandJsonUrl &&
      algorithm && {
        webhook_signing: {
          supported: true,
          profile: WEBHOOKS.tag,
          algorithms: [algorithm],
          legacy_hmac_fallback: true,
          ...(isSince32(release) && { delivery_retry_horizon_seconds: RETRY_HORIZON_SECONDS }),
        },
      }),
    ...(requests && {
      request_signing: {
        ...{ supported: true, covers_content_digest: 'either' },
        ...(brandJsonUrl && {
          supported_for: changing,
          required_for: requests.required ? changing : [],
        }),
      },
    }),
  }
}

export function getAdcpCapabilities(options: CapabilitiesOptions): Task<typeof CapabilitiesRequest> {
  const { facts, replayTtlSeconds, changing, testScenarios, previews } = options
  return {
    name: 'get_adcp_capabilities',
    aliases: ['get_protocol_capabilities'],
    title: 'What this agent can do',
    description:
      'Tells what this signals agent supports: protocol releases, discovery modes, feed versioning, and the data ' +
      'providers whose signals it offers. Call it once before the other tools.',
    request: CapabilitiesRequest,
    response: CapabilitiesResponse,
    mutating: false,
    isPlain: () => true,
    handle(_, { release }) {
      const { providerDomains, servesOwned, accountOverlays, signing, feedWebhooks } = facts()
      return {
        kind: 'answer',
        message: `A federating signals agent with signals of ${howMany(providerDomains.length, 'data provider')}.`,
        fields: {
          adcp: {
            major_versions: [MAJOR],
            supported_versions: [...RELEASES, ...previews],
            idempotency: { supported: true, replay_ttl_seconds: replayTtlSeconds },
          },
          supported_protocols: ['signals'],
          specialisms: ['signal-marketplace', ...(servesOwned ? ['signal-owned'] : [])],
          account: { supported_billing: ['operator', 'agent'] },
          signals: {
            discovery_modes: ['brief', 'wholesale'],
            ...(providerDomains.length > 0 && {
              data_provider_domains: providerDomains.slice(0, MAX_DOMAINS),
            }),
          },
          wholesale_feed_versioning: {
            supported: true,
            pricing_version_separate: true,
            cache_scope_account: accountOverlays,
          },
          ...(feedWebhooks && {
            wholesale_feed_webhooks: { supported: true, event_types: FEED_EVENTS },
          }),
          ...(signing && signingFields(signing, changing, release)),
          ...(testScenarios && { compliance_testing: { scenarios: testScenarios(release) } }),
        },
      }
    },
  }
}
