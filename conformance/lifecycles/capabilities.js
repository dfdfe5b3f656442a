/** What is declared has to fit together; the schemas enforce none of it (get_adcp_capabilities reference). */
import { deepEqual, equal, ok } from 'node:assert/strict'

const declared = (call) => call('get_adcp_capabilities', {})

export const CAPABILITIES = [
  {
    name: 'capabilities fit together',
    release: '3.1',
    steps: {
      'what is not offered is left out': async ({ call }) => {
        const { wholesale_feed_webhooks: feed, webhook_signing: signing } = await declared(call)
        for (const block of [feed, signing]) ok(block === undefined || block.supported === true)
      },
      'feed webhooks come with wholesale, signatures and an identity': async ({ call }) => {
        const {
          wholesale_feed_webhooks: feed,
          webhook_signing: signing,
          identity,
          signals,
        } = await declared(call)
        if (!feed) return
        ok(feed.event_types.length > 0 && signals.discovery_modes.includes('wholesale'))
        equal(signing.profile, 'adcp/webhook-signing/v1')
        ok(identity.brand_json_url.startsWith('https://'))
      },
      'a demanded signature is a supported one': async ({ call }) => {
        const { request_signing: signing, adcp } = await declared(call)
        if (!signing?.supported) return
        const { required_for: demanded = [], supported_for: supported = [] } = signing
        deepEqual(
          demanded.filter((task) => !supported.includes(task)),
          [],
        )
        if (adcp.supported_versions.some((version) => version >= '3.2')) {
          equal(signing.covers_content_digest, 'required')
        }
      },
      'a replay is remembered for an hour to a week': async ({ call }) => {
        const { supported, replay_ttl_seconds: seconds } = (await declared(call)).adcp.idempotency
        ok(supported && seconds >= 3_600 && seconds <= 604_800)
      },
    },
  },
]
