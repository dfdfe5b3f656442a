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

const minorOf = (release: Release) => Number(release.slice(release.indexOf('.') + 1))

function unsupported(field: 'adcp_version' | 'adcp_major_version', why: string, pin: VersionPin): AdcpError {
  return adcpError('VERSION_UNSUPPORTED', `This agent speaks AdCP ${RELEASES.join(' and ')}: ${why}.`, {
    field,
    suggestion: 'Send adcp_version as one of details.supported_versions, or leave both pins out.',
    details: { supported_versions: [...RELEASES], supported_majors: [MAJOR], ...pin },
  })
}

/**
 * The highest of our releases that is not above the pin, within its major; the latest when nothing is pinned. Refused:
 * another major, a pin below all of ours, two pins of different majors, and a prerelease, which matches only itself.
 */
export function negotiate(pin: VersionPin): Release | AdcpError {
  const { adcp_version: version, adcp_major_version: major } = pin
  const parsed = version === undefined ? undefined : parse(version)
  if (major !== undefined && parsed && parsed.major !== major) {
    return unsupported('adcp_major_version', 'the two pins name different majors', pin)
  }
  if (major !== undefined && major !== MAJOR) {
    return unsupported('adcp_major_version', `it has no major ${major}`, pin)
  }
  if (version === undefined) return LATEST
  if (parsed?.major !== MAJOR) return unsupported('adcp_version', 'the pin is of another major', pin)
  if (parsed.prerelease)
    return unsupported('adcp_version', 'a prerelease is not served as another release', pin)
  const release = RELEASES.findLast((one) => minorOf(one) <= parsed.minor)
  return release ?? unsupported('adcp_version', 'the pin is below all of them', pin)
}
