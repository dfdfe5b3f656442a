/** Which release serves a pin: the table of the specification ("Version negotiation"), over what this agent serves. */
import { test } from 'tap'
import { negotiate, PREVIEWS, type VersionPin } from '../../src/adcp/answer.js'

const beta = PREVIEWS[0]

function served(pin: VersionPin, previews = false): string {
  const found = negotiate(pin, previews ? PREVIEWS : [])
  return typeof found === 'string' ? found : found.code
}

test('a pin is served by the highest release that is not above it', (t) => {
  t.equal(served({}), '3.1')
  t.equal(served({ adcp_version: '3.0' }), '3.0')
  t.equal(served({ adcp_version: '3.1' }), '3.1')
  t.equal(served({ adcp_version: '3.7' }), '3.1')
  t.equal(served({ adcp_major_version: 3 }), '3.1', 'the major alone: the highest in it')
  t.equal(served({ adcp_version: '3.0', adcp_major_version: 3 }), '3.0')
  for (const pin of [
    { adcp_version: '2.9' },
    { adcp_version: '4.0' },
    { adcp_major_version: 4 },
    { adcp_version: '3.1', adcp_major_version: 4 },
    { adcp_version: '4.0', adcp_major_version: 3 },
    { adcp_version: '3.2-beta.5', adcp_major_version: 4 },
  ]) {
    t.equal(served(pin), 'VERSION_UNSUPPORTED', JSON.stringify(pin))
  }
  t.end()
})

test('a prerelease matches only itself, and no release is served by it', (t) => {
  t.equal(served({ adcp_version: beta }), 'VERSION_UNSUPPORTED')
  t.equal(served({ adcp_version: beta }, true), beta)
  t.equal(served({ adcp_version: '3.2-beta.4' }, true), 'VERSION_UNSUPPORTED')
  t.equal(served({ adcp_version: '3.1-rc.1' }, true), 'VERSION_UNSUPPORTED')
  t.equal(served({ adcp_version: '3.2' }, true), '3.1')
  t.equal(served({ adcp_version: beta, adcp_major_version: 3 }, true), beta)
  t.equal(served({ adcp_version: beta, adcp_major_version: 4 }, true), 'VERSION_UNSUPPORTED')
  t.equal(served({}, true), '3.1')
  t.equal(served({ adcp_major_version: 3 }, true), '3.1')
  t.match(negotiate({ adcp_version: '4.0' }, PREVIEWS), {
    details: { supported_versions: ['3.0', '3.1', beta], adcp_version: '4.0' },
  })
  t.end()
})
