/**
 * The A2A agent card, one document that 1.0 and 0.3 clients both read (docs/protocol.md#a2a). It holds no credentials
 * and needs none to be read. Built by hand: the SDK writes one form or the other.
 */
import type { Task } from '../../tasks/task.js'
import { PROFILE } from './a2a-message.js'

type AgentCardOptions = {
  publicUrl: string
  version: string
  tasks: readonly Task[]
}

export function agentCard({ publicUrl, version, tasks }: AgentCardOptions) {
  const url = new URL('/a2a', publicUrl).href
  const modes = ['application/json', 'text/plain']
  const skills = tasks.flatMap(({ name, aliases = [], title, description, mutating }) =>
    [name, ...aliases].map((id) => ({
      id,
      name: title,
      description: `${description} Send a data part {"skill": "${id}", "input": {...}}.`,
      tags: ['adcp', 'signals', mutating ? 'write' : 'read'],
      inputModes: ['application/json'],
      outputModes: modes,
    })),
  )
  return {
    name: 'Tributary',
    description: 'Many signals agents as one verified, versioned feed, by the Ad Context Protocol.',
    version,
    url,
    preferredTransport: 'JSONRPC',
    protocolVersion: '0.3.0',
    supportedInterfaces: [
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
    ],
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extensions: [
        { uri: PROFILE, description: 'Speaks the Ad Context Protocol, major version 3.', required: false },
      ],
    },
    defaultInputModes: ['application/json'],
    defaultOutputModes: modes,
    // The 0.3 form of a scheme and the 1.0 form, side by side.
    securitySchemes: {
      bearer: { type: 'http', scheme: 'bearer', httpAuthSecurityScheme: { scheme: 'Bearer' } },
    },
    security: [{ bearer: [] }],
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    skills,
  }
}

export type AgentCardDocument = ReturnType<typeof agentCard>
