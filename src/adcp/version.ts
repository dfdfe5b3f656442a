/** Which release of the protocol an answer is given in (specification, "Versioning"; docs/protocol.md#versions). */
import { type AdcpError, adcpError } from './answer.js'

export const RELEASES = ['3.0', '3.1'] as const
/**
 * Releases that are not final yet. They are served only where the configuration allows it, and only to callers that pin
 * exactly them.
 */
export const PREVIEWS = ['3.2-beta.5'] as const
type Stable = (typeof RELEASES)[number]
export type Preview = (typeof PREVIEWS)[number]
export type Release = Stable | Preview
export const MAJOR = 3
const LATEST: Stable = '3.1'

export type VersionPin = { adcp_version?: string; adcp_major_version?: number }

type Parsed = { major: number; minor: number; prerelease: boolean }

function parse(pin: string): Parsed | undefined {
  const match = /^(\d+)\.(\d+)(-.+)?$/.exec(pin)
  return match
    ? { major: Number(match[1]), minor: Number(match[2]), prerelease: match[3] !== undefined }
    : undefined
}

const minorOf = (release: Stable) => Number(release.slice(release.indexOf('.') + 1))

/** Whether this release has the requirements that 3.2 adds to 3.1. */
export function isSince32(release: Release): boolean {
  return PREVIEWS.some((preview) => preview === release)
}

/**
 * The highest of our releases that is not above the pin and has the same major; the latest when nothing is pinned, or
 * the major alone. Refused are another major, a pin below all of ours, two pins of different majors, and a prerelease
 * that is not one of `previews`: a prerelease matches only itself.
 */
export function negotiate(pin: VersionPin, previews: readonly Preview[] = []): Release | AdcpError {
  const served = [...RELEASES, ...previews]
  const unsupported = (field: 'adcp_version' | 'adcp_major_version', why: string) =>
    adcpError('VERSION_UNSUPPORTED', `This agent speaks AdCP ${served.join(', ')}: ${why}.`, {
      field,
      suggestion: 'Send adcp_version as one of details.supported_versions, or leave both pins out.',
      details: { supported_versions: served, supported_majors: [MAJOR], ...pin },
    })
  const { adcp_version: version, adcp_major_version: major } = pin
  const parsed = version === undefined ? undefined : parse(version)
  if (major !== undefined && parsed && parsed.major !== major) {
    return unsupported('adcp_major_version', 'the two pins name different majors')
  }
  if (major !== undefined && major !== MAJOR) {
    return unsupported('adcp_major_version', `it has no major ${major}`)
  }
  if (version === undefined) return LATEST
  if (parsed?.major !== MAJOR) return unsupported('adcp_version', 'the pin is of another major')
  if (parsed.prerelease) {
    const preview = previews.find((one) => one === version)
    return preview ?? unsupported('adcp_version', 'a prerelease is not served as another release')
  }
  const release = RELEASES.findLast((one) => minorOf(one) <= parsed.minor)
  return release ?? unsupported('adcp_version', 'the pin is below all of them')
}
