// The feed: words, facets, rows.
import { go, href, keep, kept, usePlace } from './address.js'
import { againAfter, get } from './api.js'
import { Calls } from './calls.js'
import { count, country, fromPrice, host, named, percent, words } from './format.js'
import { html } from './h.js'
import { useRef, useState } from './lib/hooks.js'
import { right, Search, Table, Trouble, useAnswer } from './parts.js'

const SHOWN = 8

const SORTS = {
  relevance: 'Best fit',
  coverage: 'Coverage, highest first',
  price: 'Price, lowest first',
  price_desc: 'Price, highest first',
  name: 'Name',
  provider: 'Provider',
  sellers: 'Most sellers',
}

/** Title, what a person reads for a value, and the one spelling of values that may be written in several. */
const FACETS = {
  provider: ['Provider', (value) => value, (value) => value.trim().toLowerCase()],
  upstream: ['Upstream', (value) => value],
  destination: ['Destination', (value) => host(value.replace(/^(platform|agent):/, ''))],
  country: ['Country', country, (value) => value.toUpperCase()],
  type: ['Type', words],
  value_type: ['Value type', words],
}

/** What a link may ask for besides, as a person reads it. It can only be taken away here. */
const OTHERS = {
  max_percent: (value) => `at most ${value} % of media`,
  min_coverage: (value) => `coverage of ${value} % or more`,
  currency: (value) => `prices in ${value}`,
}

/** The address of the first page after a change. */
function changedBy(params, change) {
  const next = new URLSearchParams(params)
  next.delete('after')
  change(next)
  return next
}

/** What is chosen in a facet, each value once. */
function chosenIn(params, name) {
  const [, , spelled = (value) => value] = FACETS[name]
  return [...new Set(params.getAll(name).map(spelled))]
}

/** What narrows the feed, of what an address may name. */
const filtersIn = (params) =>
  [...Object.keys(FACETS), 'max_cpm', ...Object.keys(OTHERS)].filter((name) => params.get(name))

function toggled(params, name, value) {
  return changedBy(params, (next) => {
    const chosen = chosenIn(params, name)
    const others = chosen.filter((one) => one !== value)
    next.delete(name)
    for (const one of others.length < chosen.length ? others : [...chosen, value]) next.append(name, one)
  })
}

function FacetValues({ name, values, params }) {
  const [all, setAll] = useState(false)
  const [title, label] = FACETS[name]
  const chosen = chosenIn(params, name)
  const missing = chosen.filter((value) => !values.some((one) => one.value === value))
  const known = [...missing.map((value) => ({ value })), ...values] // only the most frequent values are counted
  if (known.length === 0) return null
  const rank = ({ value }) => (chosen.includes(value) ? 0 : 1)
  const ordered = [...known].sort((a, b) => rank(a) - rank(b))
  const shown = all ? ordered : ordered.slice(0, Math.max(SHOWN, chosen.length))
  return html`<fieldset class="facet">
    <legend>${title}</legend>
    ${shown.map(
      (one) => html`<label key=${one.value} title=${one.value}>
        <input type="checkbox" checked=${chosen.includes(one.value)} onChange=${() => go(toggled(params, name, one.value))} />
        <span class="name">${label(one.value)}</span><span class="number">${count(one.count)}</span>
      </label>`,
    )}
    ${known.length > shown.length && html`<button type="button" class="quiet more" onClick=${() => setAll(true)}>${known.length - shown.length} more</button>`}
    ${all && known.length > SHOWN && html`<button type="button" class="quiet more" onClick=${() => setAll(false)}>fewer</button>`}
  </fieldset>`
}

/** `total`: how many are found without a price. */
function PriceFacet({ values, total, params }) {
  const chosen = params.get('max_cpm')
  const known = [...values]
  if (!chosen && known.every((one) => one.count === 0 || one.count === total)) return null
  if (chosen && !known.some(({ value }) => value === chosen)) known.unshift({ value: chosen })
  const choose = (value) =>
    go(changedBy(params, (next) => (value === chosen ? next.delete('max_cpm') : next.set('max_cpm', value))))
  return html`<fieldset class="facet">
    <legend>CPM at most, ${params.get('currency') || 'USD'}</legend>
    ${known.map(
      ({ value, count: own }) => html`<label key=${value}>
        <input type="checkbox" checked=${value === chosen} onChange=${() => choose(value)} />
        <span class="name">${value}</span><span class="number">${count(own)}</span>
      </label>`,
    )}
  </fieldset>`
}

function OtherFilters({ params }) {
  const chosen = Object.keys(OTHERS).filter((name) => params.get(name))
  if (chosen.length === 0) return null
  return html`<fieldset class="facet">
    <legend>Besides</legend>
    ${chosen.map(
      (name) => html`<label key=${name}>
        <input type="checkbox" checked onChange=${() => go(changedBy(params, (next) => next.delete(name)))} />
        <span class="name">${OTHERS[name](params.get(name))}</span>
      </label>`,
    )}
  </fieldset>`
}

function Facets({ params, query, pulse }) {
  const { value, error } = useAnswer((signal) => get(`facets?${query}`, signal), query, pulse.feed)
  const active = filtersIn(params)
  const clear = () =>
    go(
      changedBy(params, (next) => {
        for (const name of active) next.delete(name)
      }),
    )
  const chosen = active.reduce((sum, name) => sum + (FACETS[name] ? chosenIn(params, name).length : 1), 0)
  const [open, setOpen] = useState(false)
  return html`<section class=${`facets ${open ? 'open' : ''}`} aria-label="Filters">
    <button type="button" class="filters-toggle" aria-expanded=${open} onClick=${() => setOpen(!open)}>Filters${chosen > 0 ? ` (${chosen})` : ''}</button>
    <div class="facet-list">
      ${chosen > 0 && html`<button type="button" class="quiet clear" onClick=${clear}>Clear ${chosen} ${chosen === 1 ? 'filter' : 'filters'}</button>`}
      ${againAfter(error) === undefined && html`<${Trouble} error=${error} />`}
      ${value && Object.keys(FACETS).map((name) => html`<${FacetValues} key=${name} name=${name} values=${value.facets[name] ?? []} params=${params} />`)}
      <${OtherFilters} params=${params} />
      ${value && html`<${PriceFacet} values=${value.facets.price ?? []} total=${value.counted} params=${params} />`}
    </div>
  </section>`
}

function Row({ signal, account }) {
  const { offers = [] } = signal.ext?.tributary ?? {}
  const sellers = [...new Set(offers.map(({ upstream }) => upstream))]
  const live = signal.deployments.filter(({ is_live }) => is_live).length
  const link = href({ signal: signal.signal_agent_segment_id, ...(account && { account }) })
  const { data_provider_domain: domain, signal_source_url: source } = signal.signal_ref
  return html`<tr>
    <td class="signal"><a href=${link}>${named(signal.name, signal.signal_agent_segment_id)}</a><span class="under">${domain ?? host(source)} · ${words(signal.signal_type)}</span></td>
    <td class="right">${percent(signal.coverage_percentage)}</td>
    <td class="right price">${fromPrice(signal.pricing_options)}</td>
    <td title=${sellers.join('\n')}>${sellers.length === 1 ? sellers[0] : `${sellers.length} sellers`}</td>
    <td class="right">${signal.deployments.length === 0 ? 'not listed' : `${live} / ${signal.deployments.length}`}</td>
  </tr>`
}

/**
 * Nothing is found, or nothing is there. An operator may ask why: of an upstream that is chosen, and where it is a name that is
 * looked for.
 */
function None({ params, who }) {
  const q = params.get('q')
  const isOperator = who.caller.role === 'operator'
  if (!q && filtersIn(params).length === 0)
    return html`<div class="empty"><p>There is no signal in the feed now. The page shows the first one by itself.</p>
      <p>${isOperator ? html`<a href=${href({ page: 'upstreams' })}>What each upstream gives, and why not more</a>` : 'Ask whoever runs this server when there will be one.'}</p>
    </div>`
  return html`<div class="empty"><p>No signal matches. Take a filter away, or use fewer words.</p>
    ${isOperator && chosenIn(params, 'upstream').map((id) => html`<p><a href=${href({ page: 'upstreams', id })}>What ${id} gives, and why not more</a></p>`)}
    ${q && isOperator && html`<p><a href=${href({ signal: q })}>Why is there no ${q}?</a></p>`}
  </div>`
}

/** What each column is put in order by; a second click turns it around where there is another way. */
const BY_COLUMN = {
  Signal: ['name'],
  Coverage: ['coverage'],
  'Price from': ['price', 'price_desc'],
  Sellers: ['sellers'],
}
const DIRECTIONS = {
  name: 'ascending',
  price: 'ascending',
  price_desc: 'descending',
  coverage: 'descending',
  sellers: 'descending',
}

function headsOf(sort, choose) {
  return ['Signal', right('Coverage'), right('Price from'), 'Sellers', right('Live on')].map((one) => {
    const head = typeof one === 'string' ? { text: one } : one
    const [first, second] = BY_COLUMN[head.text] ?? []
    if (!first) return head
    const isOn = sort === first || sort === second
    return {
      ...head,
      sorted: isOn ? DIRECTIONS[sort] : 'none',
      onSort: () => choose(sort === first && second ? second : first),
    }
  })
}

/** Reads as many pages as are shown. Of an unchanged feed only those that are not `held` yet. */
async function readPages({ query, news, pages }, held, signal) {
  const of = `${query} ${news}`
  const found = held.current?.of === of ? [...held.current.found] : []
  while (found.length === 0 || (found.length < pages && found.at(-1).next)) {
    const after = found.length > 0 ? `&after=${encodeURIComponent(found.at(-1).next)}` : ''
    found.push(await get(`signals?${query}${after}`, signal))
  }
  held.current = { of, found }
  return found
}

function Rows({ params, query, pulse, who }) {
  const { pages = 1 } = kept()
  const held = useRef()
  const asked = { query, pages, news: pulse.feed }
  const {
    value: found,
    error,
    isLoading,
  } = useAnswer((signal) => readPages(asked, held, signal), query, `${pages} ${pulse.feed}`)
  usePlace(found)
  if (error) return html`<${Trouble} error=${error} isPassing=${againAfter(error) !== undefined} />`
  if (!found) return html`<p class="hint">Loading</p>`
  const [value] = found
  const signals = found.flatMap((page) => page.signals)
  const args = value.get_signals
  const sort = params.get('sort') || value.sort
  const sortBy = (name) => go(changedBy(params, (changed) => changed.set('sort', name)))
  const sorts = Object.entries(SORTS).filter(
    ([name]) => name !== 'relevance' || params.get('q') || name === sort,
  )
  return html`<div class=${isLoading ? 'waiting' : ''}>
    <div class="tools">
      <p class="total" role="status"><strong>${count(value.total)}</strong> ${value.total === 1 ? 'signal' : 'signals'}</p>
      <label class="sort">Sort <select value=${sort} onChange=${(event) => sortBy(event.target.value)}>${sorts.map(([name, title]) => html`<option value=${name} selected=${name === sort}>${title}</option>`)}</select></label>
      <${Calls} task="get_signals" args=${args} />
    </div>
    ${value.warnings.map(({ message }) => html`<p class="notice">${message}</p>`)}
    ${
      signals.length === 0
        ? html`<${None} params=${params} who=${who} />`
        : html`<${Table} label="Signals" head=${headsOf(value.sort, sortBy)}>
          ${signals.map((signal) => html`<${Row} key=${signal.signal_agent_segment_id} signal=${signal} account=${params.get('account')} />`)}
        <//>`
    }
    ${found.at(-1).next && html`<p class="hint shown">The first ${count(signals.length)} of ${count(value.total)}</p><button type="button" class="next" onClick=${() => keep({ pages: found.length + 1 })}>Show more</button>`}
  </div>`
}

/** Whose prices: the rate card's, or those of one of the caller's accounts. */
function Account({ params, who }) {
  const { accounts } = who.caller
  if (accounts.length === 0) return null
  const choose = (event) =>
    go(
      changedBy(params, (next) =>
        event.target.value ? next.set('account', event.target.value) : next.delete('account'),
      ),
    )
  return html`<label class="account">Account <select value=${params.get('account') ?? ''} onChange=${choose}>
    <option value="">rate card</option>
    ${accounts.map((id) => html`<option value=${id} selected=${id === params.get('account')}>${id}</option>`)}
  </select></label>`
}

/** A question of the API: it refuses what it does not know, as which page is shown, or the order of a count. */
function asked(params, ...without) {
  const query = new URLSearchParams(params)
  for (const name of without) query.delete(name)
  return query.toString()
}

export function Feed({ params, who, pulse }) {
  return html`<h1 class="hidden">Feed</h1>
    <div class="search-line"><${Search} id="q" label="Search signals" params=${params} hint="Search signals: what they are, who makes them, whom they reach" /><${Account} params=${params} who=${who} /></div>
    <div class="feed">
      <${Facets} params=${params} query=${asked(params, 'page', 'after', 'sort')} pulse=${pulse} />
      <div class="results"><${Rows} params=${params} query=${asked(params, 'page')} pulse=${pulse} who=${who} /></div>
    </div>`
}
