/** The wholesale feed: walks, conditional reads and the scope that an answer is good for (specification, "Wholesale"). */
import { deepEqual, equal, notDeepEqual, ok } from 'node:assert/strict'

const WHOLESALE = { discovery_mode: 'wholesale' }
const NATURAL = { brand: { domain: 'account-overlay.example' }, operator: 'pinnacle-agency.example' }

async function refused(call, args) {
  const { status, adcp_error: error } = await call('get_signals', args)
  equal(status, 'failed', JSON.stringify(args))
  equal(error.code, 'INVALID_REQUEST', JSON.stringify(args))
}

const WALK = {
  name: 'wholesale walk',
  release: '3.1',
  steps: {
    'pages follow each other without a gap, a repetition or a new version': async ({ call }, state) => {
      const ids = []
      let cursor
      let pages = 0
      do {
        const pagination = { max_results: 100, ...(cursor && { cursor }) }
        const page = await call('get_signals', { ...WHOLESALE, pagination })
        state.version ??= page.wholesale_feed_version
        equal(page.wholesale_feed_version, state.version)
        state.pricing = page.pricing_version
        state.total = page.pagination.total_count
        ids.push(...page.signals.map(({ signal_agent_segment_id: id }) => id))
        cursor = page.pagination.cursor
        equal(page.pagination.has_more, cursor !== undefined)
        pages += 1
      } while (cursor && pages < 30)
      equal(new Set(ids).size, ids.length)
      if (!cursor && state.total !== undefined) equal(ids.length, state.total)
    },
    'the same version is answered unchanged, without rows': async ({ call }, { version, pricing }) => {
      const held = { version, pricing }
      const conditional = () => ({
        if_wholesale_feed_version: held.version,
        ...(held.pricing && { if_pricing_version: held.pricing }),
      })
      let answer = await call('get_signals', { ...WHOLESALE, ...conditional() })
      // What was activated a moment ago may move the feed: rows come with another version then, never with the same.
      for (let moves = 0; !answer.unchanged && moves < 10; moves++) {
        const { wholesale_feed_version: version, pricing_version: pricing } = answer
        notDeepEqual({ version, pricing }, held)
        Object.assign(held, { version, pricing })
        answer = await call('get_signals', { ...WHOLESALE, ...conditional() })
      }
      equal(answer.unchanged, true)
      ok(!('signals' in answer), 'no rows')
      equal(answer.cache_scope, 'public')
    },
    'another version is answered with rows': async ({ call }) => {
      const answer = await call('get_signals', { ...WHOLESALE, if_wholesale_feed_version: 'of-another-feed' })
      ok(answer.signals.length > 0)
    },
    'what wholesale does not take is refused': async ({ call }) => {
      await refused(call, { ...WHOLESALE, signal_spec: 'coffee' })
      await refused(call, { ...WHOLESALE, if_pricing_version: 'p' })
      await refused(call, { ...WHOLESALE, pagination: { cursor: 'bm90IG91cnM' } })
      await refused(call, { ...WHOLESALE, pagination: { max_results: 0 } })
      await refused(call, { signal_spec: 'coffee', if_wholesale_feed_version: 'v' })
    },
  },
}

const SCOPES = {
  name: 'wholesale scope isolation',
  release: '3.2',
  steps: {
    'an answer without an account is public': async ({ call }, state) => {
      const page = await call('get_signals', { ...WHOLESALE, pagination: { max_results: 1 } })
      equal(page.cache_scope, 'public')
      state.version = page.wholesale_feed_version
    },
    'an account is public with the public token, or account with a token of its own': async (
      { call },
      state,
    ) => {
      const capabilities = await call('get_adcp_capabilities', {})
      const page = await call('get_signals', {
        ...WHOLESALE,
        account: NATURAL,
        pagination: { max_results: 1 },
      })
      const declared = capabilities.wholesale_feed_versioning.cache_scope_account
      equal(page.wholesale_feed_version === state.version, page.cache_scope === 'public')
      if (!declared) equal(page.cache_scope, 'public')
    },
    'a token of one tuple never matches in another': async ({ call }, { version }) => {
      const other = { filters: { max_cpm: 1 }, if_wholesale_feed_version: version }
      ok(!(await call('get_signals', { ...WHOLESALE, ...other })).unchanged)
    },
    'a cursor of one caller is refused to another': async ({ call, other }) => {
      const { pagination } = await call('get_signals', { ...WHOLESALE, pagination: { max_results: 1 } })
      await refused(other, { ...WHOLESALE, pagination: { max_results: 1, cursor: pagination.cursor } })
    },
    'missing and foreign accounts get the same refusal': async ({ call, other }) => {
      const own = await call('sync_accounts', {
        idempotency_key: `scope-${crypto.randomUUID()}`,
        accounts: [{ ...NATURAL, billing: 'operator' }],
      })
      const ask = (id) => other('get_signals', { ...WHOLESALE, account: { account_id: id } })
      const foreign = await ask(own.accounts[0].account_id)
      const missing = await ask('acc_of_nobody')
      equal(foreign.adcp_error.code, 'ACCOUNT_NOT_FOUND')
      deepEqual(foreign.errors, missing.errors)
    },
  },
}

export const WHOLESALE_FEED = [WALK, SCOPES]
