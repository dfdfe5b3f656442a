/**
 * How each agent of the demo market tells and sells the same signals: its release, handles, references, prices,
 * claims and destinations. The differences are the ones that real agents show (docs/protocol.md#how-agents-differ).
 */
import type { Destination } from '../src/adcp/signal.js'
import type { AgentId } from './parties.js'

export type Mode = 'brief' | 'wholesale'

/** One destination that an agent delivers to. */
export type Desk = {
  destination: Destination
  key: 'segment_id' | 'key_value'
  /** Share of the agent's signals that are live there from the start. */
  live: number
  /** How long an activation is said to take, minutes. */
  minutes: number
  /** An activation there is a task to poll; elsewhere it is answered at once. */
  task?: true
}

export type Profile = {
  release: '3.0' | '3.1'
  modes: readonly Mode[]
  handlePrefix: string
  references: 'ref' | 'legacy' | 'both'
  /** Against the market's list price. */
  priceLevel: number
  /** One id for the option of every signal, as many real agents have it. */
  sharedOptionIds: boolean
  /** Names as a path, "Provider > Branch > Name". */
  pathNames: boolean
  /** What its rows say on consent: the origin's words, sometimes its own, always its own, nothing. */
  consent: 'origin' | 'sometimes_own' | 'own' | 'silent'
  forecasts: boolean
  accountPricing: boolean
  /** Whether prices have a version token of their own. */
  separatePricing: boolean
  desks: readonly Desk[]
}

const TRADE_DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
const PINECREST: Destination = { type: 'agent', agent_url: 'https://sales.pinecrest.example/mcp' }
// The seat and the sales agent that the protocol's own storyboards activate on.
const CONNECTED_SEAT: Destination = { ...TRADE_DESK, account: 'agency-123-ttd' }
const WONDERSTRUCK: Destination = { type: 'agent', agent_url: 'https://wonderstruck.salesagents.example' }
const STREAMHAUS: Destination = { type: 'agent', agent_url: 'https://ads.streamhaus.example/mcp' }

const CURRENT = {
  release: '3.1',
  modes: ['brief', 'wholesale'],
  accountPricing: false,
  separatePricing: true,
} as const

export const PROFILES: Readonly<Record<AgentId, Profile>> = {
  northwind: {
    ...CURRENT,
    handlePrefix: 'nw_seg_',
    references: 'ref',
    priceLevel: 1,
    sharedOptionIds: false,
    pathNames: false,
    consent: 'origin',
    forecasts: true,
    accountPricing: true,
    desks: [
      { destination: TRADE_DESK, key: 'segment_id', live: 0.9, minutes: 30 },
      {
        destination: { type: 'platform', platform: 'index-exchange', account: 'nw-exchange-seat' },
        key: 'segment_id',
        live: 0.5,
        minutes: 45,
      },
      { destination: PINECREST, key: 'key_value', live: 0.4, minutes: 15 },
      { destination: WONDERSTRUCK, key: 'key_value', live: 0.1, minutes: 15 },
    ],
  },
  meridian: {
    ...CURRENT,
    handlePrefix: 'mrd:aud:',
    references: 'both',
    priceLevel: 0.87,
    sharedOptionIds: true,
    pathNames: true,
    consent: 'sometimes_own',
    forecasts: true,
    desks: [
      { destination: TRADE_DESK, key: 'segment_id', live: 0, minutes: 120, task: true },
      {
        destination: { type: 'platform', platform: 'dv360' },
        key: 'segment_id',
        live: 0,
        minutes: 240,
        task: true,
      },
      { destination: STREAMHAUS, key: 'key_value', live: 0.1, minutes: 60, task: true },
      { destination: CONNECTED_SEAT, key: 'segment_id', live: 0, minutes: 5 },
      { destination: WONDERSTRUCK, key: 'key_value', live: 0, minutes: 5 },
    ],
  },
  harborlight: {
    ...CURRENT,
    separatePricing: false,
    handlePrefix: 'hl-',
    references: 'ref',
    priceLevel: 1.2,
    sharedOptionIds: false,
    pathNames: false,
    consent: 'origin',
    forecasts: true,
    desks: [
      { destination: STREAMHAUS, key: 'key_value', live: 0.8, minutes: 10 },
      {
        destination: { type: 'platform', platform: 'amazon-dsp' },
        key: 'segment_id',
        live: 0.2,
        minutes: 60,
      },
    ],
  },
  oldmill: {
    release: '3.0',
    modes: ['brief'],
    handlePrefix: 'OM',
    references: 'legacy',
    priceLevel: 0.95,
    sharedOptionIds: true,
    pathNames: false,
    consent: 'silent',
    forecasts: false,
    accountPricing: false,
    separatePricing: false,
    desks: [
      { destination: TRADE_DESK, key: 'segment_id', live: 0.6, minutes: 1440 },
      { destination: WONDERSTRUCK, key: 'key_value', live: 0, minutes: 1440 },
    ],
  },
  gullwing: {
    ...CURRENT,
    handlePrefix: 'gw/',
    references: 'ref',
    priceLevel: 0.4,
    sharedOptionIds: true,
    pathNames: false,
    consent: 'own',
    forecasts: false,
    desks: [
      { destination: TRADE_DESK, key: 'segment_id', live: 1, minutes: 5 },
      { destination: { type: 'platform', platform: 'dv360' }, key: 'segment_id', live: 1, minutes: 5 },
    ],
  },
}
