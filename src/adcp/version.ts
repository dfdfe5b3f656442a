/** Which release of the protocol an answer is given in (specification, "Versioning"; docs/protocol.md#versions). */
import { type AdcpError, adcpError } from './error.js'

export const RELEASES = ['3.0', '3.1'] as const
export type Release = (typeof RELEASES)[number]
export const MAJOR = 3
const LATEST: Release = '3.1'

export type VersionPin = { adcp_version?: string; adcp_major_version?: number }

type Parsed = { major: number; minor: number; prerelease: boolean }

function parse(pin: string): Parsed | undefined {
  const match = /^(\d+)\.(\d+)(-.+)?$/.exec(pin)
  return match
    ? { major: Number(match[1]), minor: Number(match[2]), prerelease: match[3] !== undefined }
    : undefined
}

function notAbove(release: Release, pin: Parsed): boolean {
  const minor = Number(release.slice(release.indexOf('.') + 1))
  return minor < pin.minor || (minor === pin.minor && !pin.prerelease)
}

function unsupported(): AdcpError {
  return adcpError('VERSION_UNSUPPORTED', `This agent speaks AdCP ${RELEASES.join(' and ')}.`, {
    field: 'adcp_version',
    suggestion: 'Send adcp_version as one of details.supported_versions, or leave it out.',
    details: { supported_versions: [...RELEASES] },
  })
}

/**
 * The highest of our releases that is not above the pin, within its major; the latest when nothing is pinned.
 * A pin below all of ours (a pre-release of our first) is served by the first. Another major is refused.
 */
export function negotiate(pin: VersionPin): Release | AdcpError {
  if (pin.adcp_major_version !== undefined && pin.adcp_major_version !== MAJOR) return unsupported()
  if (pin.adcp_version === undefined) return LATEST
  const parsed = parse(pin.adcp_version)
  if (parsed?.major !== MAJOR) return unsupported()
  return RELEASES.findLast((release) => notAbove(release, parsed)) ?? RELEASES[0]
}
