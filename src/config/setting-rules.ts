/** Rules between settings, which the schema of the configuration file cannot say. */

import { callerRules } from './caller-rules.js'
import { limitRules } from './limits.js'
import { baseUrlRule, egressRules, listenRules, providerRules } from './place-rules.js'
import type { Rule } from './problem.js'
import { retentionRules } from './retention.js'
import type { ConfigFile } from './schema.js'
import { readSigningKey } from './signing-key.js'
import { timeRules } from './times.js'
import { registryRules, upstreamRules } from './upstream-rules.js'

const SIGNING_KEY = 'a private Ed25519 or P-256 key: a JSON Web Key with a kid, or an id beside a key in PEM'

function* eventRules({ events, webhooks }: ConfigFile): Rule {
  yield* baseUrlRule(events?.public_url, ['events', 'public_url'])
  yield* baseUrlRule(events?.brand_json_url, ['events', 'brand_json_url'])
  if (events?.signing_key !== undefined && !readSigningKey(events.signing_key)) {
    yield { at: ['events', 'signing_key'], expected: SIGNING_KEY }
  }
  if (webhooks?.signing_key === undefined) return
  if (events?.signing_key !== undefined) {
    yield { at: ['webhooks', 'signing_key'], expected: 'nothing, as events.signing_key is the same setting' }
  } else if (!readSigningKey(webhooks.signing_key)) {
    yield {
      at: ['webhooks', 'signing_key', 'private_key'],
      expected: 'an Ed25519 or P-256 private key in PEM',
    }
  }
}

/** The currency in which others are measured is worth one of itself. */
function* rateRules({ currencies }: ConfigFile): Rule {
  const measure = currencies?.in ?? 'USD'
  const own = currencies?.rates[measure]
  if (own !== undefined && own !== 1) {
    yield { at: ['currencies', 'rates', measure], expected: 'nothing: the others are measured in it' }
  }
}

/** A tool that forces statuses and results must not run where anything is real. */
function* testRules({ sandbox, test_controller }: ConfigFile, production: boolean): Rule {
  if (!test_controller) return
  if (!sandbox) yield { at: ['test_controller'], expected: 'false, or sandbox: true beside it' }
  if (production) yield { at: ['test_controller'], expected: 'false where NODE_ENV is production' }
}

/** 3.2 signs requests in a way of its own, and an endpoint has one (specification 3.2, "Request signing"). */
function* previewRules({ preview_releases: previews = [], callers }: ConfigFile): Rule {
  if (previews.length > 0 && callers?.keys?.some(({ signing }) => signing)) {
    yield {
      at: ['preview_releases'],
      expected: 'none beside callers with signing, whose signatures are of 3.1',
    }
  }
}

/** What is wrong: the way to each setting and what was expected there. */
export function* brokenRules(file: ConfigFile, production: boolean): Rule {
  yield* listenRules(file)
  yield* registryRules(file)
  yield* upstreamRules(file)
  yield* timeRules(file)
  yield* limitRules(file)
  yield* retentionRules(file)
  yield* providerRules(file)
  yield* egressRules(file)
  yield* callerRules(file)
  yield* eventRules(file)
  yield* previewRules(file)
  yield* rateRules(file)
  yield* testRules(file, production)
}
