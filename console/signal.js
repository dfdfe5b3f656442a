// One signal: what it is, who sells it for how much, where it can be used, and why it is or is not there.
import { href, keptOpen, usePlace } from './address.js'
import { get } from './api.js'
import { Calls } from './calls.js'
import { Changes } from './changes.js'
import { count, country, host, moment, named, percent, price, target, words } from './format.js'
import { html } from './h.js'
import { useEffect } from './lib/hooks.js'
import { Facts, Problem, right, State, Table, Trouble, useAnswer, When } from './parts.js'
import { STATES } from './upstreams.js'

const VERDICTS = {
  authorized: 'good',
  not_applicable: 'good',
  unverifiable: 'wait',
  unauthorized: 'bad',
}

/** Members of a definition that are shown elsewhere on the page. */
const ELSEWHERE = new Set([
  'signal_agent_segment_id',
  'signal_ref',
  'signal_id',
  'id',
  'name',
  'description',
  'deployments',
  'pricing_options',
  'ext',
  'coverage_forecast',
])

const INSTANT = /^\d{4}-\d\d-\d\dT[\d:.]{8,}(?:Z|[+-]\d\d:\d\d)$/

/** What is made of parts, part by part. */
function Tree({ of }) {
  return html`<ul class="tree">${Object.entries(of).map(
    ([name, value]) =>
      html`<li>${!Array.isArray(of) && html`<span class="hint">${words(name)}</span> `}${told(value)}</li>`,
  )}</ul>`
}

const told = (value) => {
  if (value === undefined) return ''
  if (typeof value === 'string' && INSTANT.test(value) && !Number.isNaN(Date.parse(value)))
    return moment(value)
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object'))
    return value.map(words).join(', ')
  if (typeof value === 'object') return html`<${Tree} of=${value} />`
  return typeof value === 'string' && !value.includes(' ') && !value.includes(':')
    ? words(value)
    : String(value)
}

function Sheet({ title, wide, children }) {
  return html`<section class=${`sheet ${wide ? 'wide' : ''}`}><h2>${title}</h2>${children}</section>`
}

function Summary({ signal }) {
  const { signal_ref: ref } = signal
  return html`<${Sheet} title="What it is">
    <p>${signal.description}</p>
    <${Facts} of=${[
      ['Provider', signal.data_provider],
      ['Domain', ref.data_provider_domain ?? host(ref.signal_source_url)],
      ['Signal id', html`<span class="mono">${ref.signal_id}</span>`],
      ['Handle', html`<span class="mono">${signal.signal_agent_segment_id}</span>`],
      ['Type', words(signal.signal_type)],
      ['Value type', signal.value_type],
      [
        'Values',
        signal.categories?.join(', ') ?? (signal.range && `${signal.range.min} to ${signal.range.max}`),
      ],
      ['Coverage', percent(signal.coverage_percentage)],
      ['Countries', signal.countries?.map(country).join(', ')],
      ['Consent basis', signal.consent_basis?.map(words).join(', ')],
    ]} />
  <//>`
}

function Offers({ signal, who }) {
  const { offers = [] } = signal.ext?.tributary ?? {}
  const options = signal.pricing_options ?? []
  return html`<${Sheet} title=${`Offers (${offers.length})`} wide>
    <${Table} label="Offers" head=${['Seller', 'Verdict', 'Price', 'Countries', right('Coverage'), right('Deployments'), 'Handle']}>
      ${offers.map((offer) => {
        const own = options.filter(({ pricing_option_id: id }) => id.startsWith(offer.handle))
        return html`<tr>
          <td>${who.caller.role === 'operator' ? html`<a href=${href({ page: 'upstreams', id: offer.upstream })}>${offer.upstream}</a>` : offer.upstream}</td>
          <td><${State} kind=${VERDICTS[offer.verdict]}>${words(offer.verdict)}<//>${offer.reason && html`<span class="under">${words(offer.reason)}</span>`}</td>
          <td>${own.length > 0 ? own.map((option) => html`<div>${price(option)}</div>`) : '–'}</td>
          <td>${(offer.countries ?? signal.countries)?.join(', ') ?? 'not bound'}</td>
          <td class="right">${percent(offer.coverage_percentage ?? signal.coverage_percentage)}</td>
          <td class="right">${offer.destinations_not_listed ? 'not listed' : count(offer.deployments.length)}</td>
          <td class="mono">${offer.handle}</td>
        </tr>`
      })}
    <//>
  <//>`
}

function Deployments({ signal }) {
  const { offers = [] } = signal.ext?.tributary ?? {}
  // Offers name targets as `platform:NAME` and `agent:URL`, an account behind a `#`; urls there end in no other way.
  const plain = (key) => key.replace(/\/(?=#|$)/, '')
  const keyOf = (one) =>
    plain(`${one.type}:${one.platform ?? one.agent_url}${one.account ? `#${one.account}` : ''}`)
  const sellersOf = (one) =>
    offers
      .filter(({ deployments }) => deployments.some((key) => plain(key) === keyOf(one)))
      .map(({ upstream }) => upstream)
  return html`<${Sheet} title=${`Deployments (${signal.deployments.length})`} wide>
    ${
      signal.deployments.length === 0
        ? html`<p class="hint">No seller lists one: it may be asked for any destination, and none is promised.</p>`
        : html`<${Table} label="Deployments" head=${['Destination', 'Kind', 'Account', 'State', right('Activation'), 'Key', 'By']}>
        ${signal.deployments.map(
          (one) => html`<tr>
          <td title=${one.agent_url}>${target(one)}</td>
          <td>${one.type}</td>
          <td class="names">${one.account ?? '–'}</td>
          <td>${one.is_live ? html`<${State} kind="good">live<//>` : html`<${State} kind="off">on request<//>`}</td>
          <td class="right">${one.estimated_activation_duration_minutes === undefined ? '–' : `${one.estimated_activation_duration_minutes} min`}</td>
          <td class="mono">${one.activation_key ? (one.activation_key.segment_id ?? `${one.activation_key.key}=${one.activation_key.value}`) : '–'}</td>
          <td>${sellersOf(one).join(', ') || '–'}</td>
        </tr>`,
        )}
      <//>`
    }
  <//>`
}

/** Everything that is said of the signal, by whom it is said; what differs from the published word is marked. */
function Definition({ answer }) {
  const { signal, sources = [], definition } = answer
  const names = new Set(
    [signal, definition ?? {}, ...sources.map((one) => one.words)].flatMap((one) => Object.keys(one)),
  )
  const fields = [...names].filter(
    (name) => !ELSEWHERE.has(name) || name === 'name' || name === 'description',
  )
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other)
  const cell = (value, published) => {
    if (value === undefined) return html`<td class="words hint">–</td>`
    return html`<td class="words">${same(value, published) ? told(value) : html`<div class="differs">${told(value)}</div><span class="hidden"> (differs)</span>`}</td>`
  }
  if (sources.length === 0) {
    const own = fields.filter((name) => !['name', 'description'].includes(name))
    return html`<${Sheet} title="Definition" wide><${Facts} of=${own.map((name) => [words(name), told(signal[name])])} /><//>`
  }
  return html`<${Sheet} title="Definition" wide>
    <p class="hint">The published words, and what the provider and each seller say. <mark>Marked</mark>: not what is published.</p>
    <${Table} label="Definition" head=${['Field', 'Published', ...(definition ? ['Provider'] : []), ...sources.map(({ upstream }) => upstream)]}>
      ${fields.map(
        (name) => html`<tr>
          <th scope="row">${words(name)}</th>
          <td class="words">${told(signal[name]) || '–'}</td>
          ${definition && cell(definition[name], signal[name])}
          ${sources.map((one) => cell(one.words[name], signal[name]))}
        </tr>`,
      )}
    <//>
  <//>`
}

/** What has to be true of a signal in the feed, one after the other. */
const STEPS = [
  'its upstream is read',
  'the upstream lists it',
  'its row can be kept',
  'it may be sold here',
  'in the feed',
]
/** The step that fails, for each reason of explain. */
const FAILS_AT = {
  ...{ upstream_excluded: 0, upstream_left: 0, upstream_absent: 0, upstream_starting: 0 },
  ...{ unknown: 1, not_for_account: 1, not_offered: 1, withdrawn: 1, offer_unknown: 1, refused_row: 2 },
  ...{ not_authorized: 3, no_country_left: 3, no_room: 3, outranked: 3, nothing_published: 3, starting: 4 },
}

/** How far it comes on its way into the feed. */
function Way({ reason }) {
  const failing = FAILS_AT[reason] ?? STEPS.length
  const kindOf = (at) => (at < failing ? 'good' : at === failing ? 'bad' : 'off')
  return html`<ol class="way">${STEPS.map((step, at) => html`<li class=${kindOf(at)}><${State} kind=${kindOf(at)}>${step}<//></li>`)}</ol>`
}

/** An upstream that may offer it, and gives nothing or old rows. */
function InTrouble({ upstream: { id, state, problem, next_attempt_at: next } }) {
  return html`<div class="in-trouble"><a href=${href({ page: 'upstreams', id })}>${id}</a> <${State} kind=${STATES[state]}>${state}<//>
    ${next && html`<span class="hint">asked again <${When} at=${next} isDue /></span>`}
    ${problem && html`<${Problem} problem=${problem} />`}
  </div>`
}

function Evidence({ answer }) {
  const { explanation, evidence = [] } = answer
  if (!explanation) return null
  const offers = explanation.signal?.offers ?? []
  const document =
    explanation.provider?.document ?? offers.find((offer) => offer.evidence?.document)?.evidence.document
  const facts = [
    ['Policy', explanation.signal?.policy],
    ['File', document?.url],
    ['Last confirmed', document && html`<${When} at=${document.confirmedAt} isExact />`],
    ['Proves until', document && html`<${When} at=${document.expiresAt} isExact />`],
    ['SHA-256', document && html`<span class="mono">${document.sha256}</span>`],
    ['Left the feed', explanation.left_at && html`<${When} at=${explanation.left_at} isExact />`],
  ]
  const isThere = explanation.reason === 'present'
  return html`<${Sheet} title="Why it is there, or not" wide>
    <p><${State} kind=${isThere ? 'good' : 'bad'}>${explanation.explanation}<//> ${explanation.detail && html`<span class="hint">${words(explanation.detail)}</span>`}</p>
    <${Way} reason=${explanation.reason} />
    ${explanation.hint && html`<p class="notice">${explanation.hint}</p>`}
    <${Facts} of=${facts} />
    ${(explanation.upstreams ?? []).filter(({ problem, state }) => problem || state !== 'fresh').map((one) => html`<${InTrouble} upstream=${one} />`)}
    ${
      offers.length > 0 &&
      html`<${Table} label="Offers and their verdicts" head=${['Upstream', 'Its own id', 'Fate', 'Verdict', 'Rests on', 'In words']}>
      ${offers.map(
        (offer) => html`<tr>
          <td>${offer.upstream}</td><td class="mono">${offer.segment_id}</td>
          <td><${State} kind=${offer.fate === 'stands' ? 'good' : 'bad'}>${words(offer.fate)}<//></td>
          <td>${words(offer.verdict)}</td>
          <td class="mono">${offer.evidence?.grants?.map(({ at }) => at).join(' ') || '–'}</td>
          <td>${offer.evidence?.explanation ?? 'its seller is its source'}${offer.evidence?.hint && html`<span class="under">${offer.evidence.hint}</span>`}</td>
        </tr>`,
      )}
    <//>`
    }
    ${evidence.map(({ at, text }) => html`<details ...${keptOpen(at)}><summary class="mono">adagents.json ${at}</summary><pre tabindex="0">${text}</pre></details>`)}
  <//>`
}

const ACCESS = { full: 'everything', without_prices: 'without prices', none: 'nothing' }

function SeenBy({ views = [] }) {
  if (views.length === 0) return null
  return html`<${Sheet} title="Who sees it">
    <${Table} label="Who sees it" head=${['Caller', 'Sees', 'Prices', 'Activation keys']}>
      ${views.map(
        (
          view,
        ) => html`<tr><td class="names">${view.caller}</td><td>${ACCESS[view.access]}</td><td>${view.prices}</td>
        <td class="names">${
          view.activation_keys
            .filter(({ shown }) => shown)
            .map(({ destination }) => destination)
            .join(', ') || 'none'
        }</td></tr>`,
      )}
    <//>
  <//>`
}

export function Signal({ id, account, who, pulse }) {
  const query = new URLSearchParams({ id, ...(account && { account }) }).toString()
  const news = `${pulse.feed} ${pulse.changes}`
  const { value, error } = useAnswer((signal) => get(`signal?${query}`, signal), query, news)
  const title = named(value?.signal?.name ?? value?.explanation?.signal?.name ?? id, id)
  useEffect(() => {
    document.title = `${title} · Tributary`
  }, [title])
  usePlace(value)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { signal, get_signals: args } = value
  return html`<div class="heading">
      <h1>${title}</h1>
      ${args && html`<${Calls} task="get_signals" args=${args} />`}
    </div>
    <div class="sheets">
      ${signal && html`<${Summary} signal=${signal} />`}
      <${SeenBy} views=${value.seen_by} />
      ${signal && html`<${Offers} signal=${signal} who=${who} /><${Deployments} signal=${signal} />`}
      <${Evidence} answer=${value} />
      <${Changes} changes=${value.changes} />
      ${signal && html`<${Definition} answer=${value} />`}
    </div>`
}
