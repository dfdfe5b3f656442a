/** Version negotiation: releases, not patches; a pin is served by itself or refused (versioning reference). */
import { deepEqual, equal, ok } from 'node:assert/strict'

const get = (call, fields) => call('get_adcp_capabilities', fields)

async function refuses(call, fields) {
  const { status, adcp_error: error } = await get(call, fields)
  equal(status, 'failed')
  equal(error.code, 'VERSION_UNSUPPORTED')
  ok(error.details.supported_versions.includes('3.1'), 'the supported versions are named')
}

export const VERSIONS = [
  {
    name: 'version negotiation',
    release: '3.1',
    steps: {
      'the supported releases are declared': async ({ call }) => {
        const { adcp } = await get(call, {})
        deepEqual(adcp.major_versions, [3])
        ok(
          adcp.supported_versions.every((version) => /^3\.\d+(-[a-z]+\.\d+)?$/.test(version)),
          'release precision',
        )
      },
      'a pin is echoed as the release that is served': async ({ call }) => {
        equal((await get(call, { adcp_version: '3.1' })).adcp_version, '3.1')
      },
      'an answer without a pin names the release': async ({ call }) => {
        equal((await get(call, {})).adcp_version, '3.1')
      },
      'another major is refused': ({ call }) => refuses(call, { adcp_version: '4.0' }),
    },
  },
  {
    name: 'pins that 3.2 makes strict',
    release: '3.2',
    steps: {
      'a 3.0 pin is echoed': async ({ call }) => {
        equal((await get(call, { adcp_version: '3.0' })).adcp_version, '3.0')
      },
      'a prerelease that is not served is refused': ({ call }) =>
        refuses(call, { adcp_version: '3.2-beta.4' }),
      'the major alone is served by the highest release in it': async ({ call }) => {
        equal((await get(call, { adcp_major_version: 3 })).adcp_version, '3.1')
      },
      'pins of two majors are refused': ({ call }) =>
        refuses(call, { adcp_version: '3.1', adcp_major_version: 4 }),
    },
  },
]
