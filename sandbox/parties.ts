/**
 * Who takes part in the demo market. Domains are reserved (RFC 2606) and the same at every start, because an agent's
 * url is part of a signal's provenance (docs/configuration.md).
 */
export type ProviderId = 'motorledger' | 'larderloyalty' | 'atlasb2b' | 'quietfield'
export type AgentId = 'northwind' | 'meridian' | 'harborlight' | 'oldmill' | 'gullwing'

export type Provider = { domain: string; name: string }
export type Party = {
  id: AgentId | 'fogbank'
  name: string
  domain: string
  url: string
  description: string
  company: string
}

export const PROVIDERS: Readonly<Record<ProviderId, Provider>> = {
  motorledger: { domain: 'motorledger.example', name: 'Motorledger Vehicle Data' },
  larderloyalty: { domain: 'larderloyalty.example', name: 'Larder Loyalty' },
  atlasb2b: { domain: 'atlasb2b.example', name: 'Atlas Business Insight' },
  quietfield: { domain: 'quietfield.example', name: 'Quietfield Research' },
}

/** Where the well-known file of Atlas points. */
export const ATLAS_RIGHTS = { domain: 'rights.ledgerline.example', path: '/atlas/adagents.json' } as const

export const REGISTRY_DOMAIN = 'registry.signalcommons.example'

export const AGENTS: Readonly<Record<AgentId, Party>> = {
  northwind: {
    id: 'northwind',
    name: 'Northwind Data Exchange',
    domain: 'signals.northwind.example',
    url: 'https://signals.northwind.example/mcp',
    description: 'Licensed automotive, grocery and business audiences, live on the large demand platforms.',
    company: 'Northwind Exchange Ltd',
  },
  meridian: {
    id: 'meridian',
    name: 'Meridian Audience Hub',
    domain: 'signals.meridian.example',
    url: 'https://signals.meridian.example/mcp',
    description: 'Broad catalogue of provider audiences, activated on request, with retail media of its own.',
    company: 'Meridian Hub GmbH',
  },
  harborlight: {
    id: 'harborlight',
    name: 'Harborlight Streaming Audiences',
    domain: 'signals.harborlight.example',
    url: 'https://signals.harborlight.example/a2a',
    description: 'First-party streaming and live sport viewers.',
    company: 'Harborlight Media Inc',
  },
  oldmill: {
    id: 'oldmill',
    name: 'Oldmill Segments',
    domain: 'signals.oldmill.example',
    url: 'https://signals.oldmill.example/mcp',
    description: 'Answers a brief with the segments that fit it.',
    company: 'Oldmill Data BV',
  },
  gullwing: {
    id: 'gullwing',
    name: 'Gullwing Audience Resale',
    domain: 'signals.gullwing.example',
    url: 'https://signals.gullwing.example/mcp',
    description: 'The audiences of well-known providers at lower prices.',
    company: 'Gullwing Trading LLC',
  },
}

/** Stands in the registry; nobody answers there. */
export const FOGBANK: Party = {
  id: 'fogbank',
  name: 'Fogbank Audiences',
  domain: 'signals.fogbank.example',
  url: 'https://signals.fogbank.example/mcp',
  description: 'Weather-driven audiences.',
  company: 'Fogbank Labs',
}
