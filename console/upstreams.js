// Upstreams: how each is doing, what it gives, and how that went over time.
import { href, usePlace } from './address.js'
import { get } from './api.js'
import { count, moment, words } from './format.js'
import { html } from './h.js'
import { useState } from './lib/hooks.js'
import { Act, Facts, Problem, right, Search, State, Table, Trouble, useAnswer, When } from './parts.js'
import { Plot } from './plot.js'

export const STATES = { fresh: 'good', starting: 'wait', stale: 'wait', absent: 'bad', excluded: 'off' }

/** Numbers in a text as people read them. */
const inDigits = (text) => text.replace(/\d+/g, (digits) => count(Number(digits)))

const milliseconds = (value) => (value === undefined ? '–' : `${count(Math.round(value))} ms`)

const PART = {
  rows: 'its last good rows are shown',
  pricing: 'its prices are out',
  coverage: 'its coverage is out',
}

/** What is shown although the upstream does not say so now. */
function carriedText({ part, given_at: at }) {
  if (part === 'rows') return `${PART.rows}, of ${moment(at)}`
  return at
    ? `${PART[part]}: those of ${moment(at)} are shown`
    : `${PART[part]}, and nothing stands in for it`
}

function Reasons({ upstream, means }) {
  const { problem, reasons, dropped, notes, hint, carried, state, read } = upstream
  const isHollow = state === 'fresh' && read === '0' && Object.keys(dropped).length === 0
  const counted = (of, what) =>
    Object.entries(of).map(
      ([reason, number]) =>
        html`<span title=${reason}>${count(number)} ${what}: ${means[reason] ?? words(reason)}</span>`,
    )
  const lines = [
    ...carried.map(carriedText),
    problem && html`<${Problem} problem=${problem} />`,
    ...counted(reasons, 'withheld'),
    ...counted(dropped, 'not kept'),
    isHollow && 'it answers, and lists no signal: whoever runs it can tell why',
    hint,
    ...notes,
  ].filter((line) => line)
  return lines.length === 0 ? '–' : lines.map((line) => html`<div>${line}</div>`)
}

function Row({ upstream, means }) {
  const {
    id,
    state,
    read,
    published,
    last_answer: last,
    confirmed_at: confirmed,
    next_attempt_at: next,
  } = upstream
  return html`<tr>
    <td class="signal"><a href=${href({ page: 'upstreams', id })}>${id}</a><span class="under">${upstream.name}</span></td>
    <td><${State} kind=${STATES[state]}>${state}<//></td>
    <td class="right">${inDigits(read)}</td>
    <td class="right">${count(published)}</td>
    <td class="right">${milliseconds(last?.ms)}</td>
    <td class="tight"><${When} at=${confirmed} /></td>
    <td class="tight"><${When} at=${next} isDue /></td>
    <td class="words"><${Reasons} upstream=${upstream} means=${means} /></td>
  </tr>`
}

const HEAD = [
  'Upstream',
  'State',
  right('Read'),
  right('Published'),
  right('Last answer'),
  'Confirmed',
  'Next',
  'Why not more',
]

/** What is wrong with a registry, with records of its listing, and what becomes of its agents. */
function RegistryTrouble({ of: { problem, diagnostics, unvouched, agents, leave_at: leave } }) {
  if (!problem && !unvouched && diagnostics.length === 0) return '–'
  return html`${problem && html`<${Problem} problem=${problem} />`}
    ${unvouched && agents > 0 && html`<div>It no longer vouches for its agents: they stay as they were last listed${leave && html`, and leave <${When} at=${leave} isDue />`}.</div>`}
    ${diagnostics.map((line) => html`<div>${line}</div>`)}`
}

function Registries({ registries }) {
  if (registries.length === 0) return null
  return html`<h2 class="section">Registries</h2>
  <${Table} label="Registries" head=${['Registry', 'State', right('Agents'), 'Read', 'Trouble']}>
    ${registries.map(
      (one) => html`<tr>
      <td class="signal">${one.url}</td>
      <td>${one.problem ? html`<${State} kind="bad">in trouble<//>` : html`<${State} kind="good">answers<//>`}</td>
      <td class="right">${count(one.agents)}</td>
      <td class="tight"><${When} at=${one.read_at} /></td>
      <td class="words"><${RegistryTrouble} of=${one} /></td>
    </tr>`,
    )}
  <//>`
}

function Excluded({ excluded }) {
  if (excluded.length === 0) return null
  return html`<h2 class="section">Left out</h2>
  <${Table} label="Left out" head=${['Agent', 'State', 'Why', 'Action']}>
    ${excluded.map(({ url, reason, means }) => html`<tr key=${url}><td class="signal">${url}</td><td><${State} kind="off">excluded<//></td><td class="words" title=${reason}>${means}</td><td><${Act} action="admit-upstream" subject=${url} label="Let in" done="Let in" /></td></tr>`)}
  <//>`
}

function Plots({ id, pulse }) {
  const [span, setSpan] = useState('hours')
  const query = new URLSearchParams({ upstream: id, span }).toString()
  const { value, error } = useAnswer((signal) => get(`history?${query}`, signal), query, pulse)
  const choice = (name, label) =>
    html`<button type="button" aria-pressed=${span === name} onClick=${() => setSpan(name)}>${label}</button>`
  return html`<section class="sheet wide">
    <div class="heading"><h2>Over time</h2><span class="choices" role="group" aria-label="Span">${choice('hours', '6 hours')}${choice('days', '30 days')}</span></div>
    ${error && html`<p class="hint">Nothing is known yet: points are kept once a minute.</p>`}
    ${
      value &&
      html`<div class="plots">
      <${Plot} title="Rows" isCounted at=${value.at} format=${count} lines=${[['read', value.rows, '--accent'], ['published', value.published, '--good']]} />
      <${Plot} title="Slowest answer, ms" isCounted at=${value.at} format=${(ms) => count(Math.round(ms))} lines=${[['ms', value.ms, '--accent']]} />
      <${Plot} title="Failing" at=${value.at} format=${(one) => (one > 0.5 ? 'yes' : one === 0 ? 'no' : '')} lines=${[['failing', value.failing, '--bad']]} />
    </div>`
    }
  </section>`
}

function One({ upstream, means, pulse }) {
  const { id, accounts, refused, carried } = upstream
  return html`<div class="heading"><h1>${id}</h1><${State} kind=${STATES[upstream.state]}>${upstream.state}<//><span class="copies">
    <${Act} action="refresh-upstream" subject=${id} label="Read again" done="Being read in full" />
    <${Act} action="exclude-upstream" subject=${id} label="Leave out" done="Left out" warning=${`Its signals leave the feed at once, for everybody. Leave ${id} out?`} />
  </span></div>
  <div class="sheets">
    <section class="sheet"><h2>What it is</h2><${Facts} of=${[
      ['Name', upstream.name],
      ['Agent', upstream.agent_url],
      ['Listed by', upstream.source === 'static' ? 'the configuration' : upstream.source],
      ['Credential', upstream.has_credential ? 'yes' : 'none'],
      ['Protocol', upstream.protocol],
      ['Read as', upstream.mode && words(upstream.mode)],
    ]} /></section>
    <section class="sheet"><h2>How it is doing</h2><${Facts} of=${[
      ['Rows read', inDigits(upstream.read)],
      ['Published', html`<a href=${`/?upstream=${encodeURIComponent(id)}`}>${count(upstream.published)}</a>`],
      ['Withheld', count(upstream.withheld)],
      [
        'Last answer',
        upstream.last_answer &&
          html`${milliseconds(upstream.last_answer.ms)}, <${When} at=${upstream.last_answer.at} />`,
      ],
      ['Whole walk', html`<${When} at=${upstream.walked_at} isExact />`],
      ['Confirmed', html`<${When} at=${upstream.confirmed_at} isExact />`],
      ['Next attempt', html`<${When} at=${upstream.next_attempt_at} isExact isDue />`],
      ['Carried', carried.map(carriedText).join('; ')],
      ['Why not more', html`<${Reasons} upstream=${upstream} means=${means} />`],
    ]} /></section>
    <${Plots} id=${id} pulse=${pulse} />
    ${
      accounts.length > 0 &&
      html`<section class="sheet wide"><h2>Accounts</h2>
      <${Table} label="Accounts" head=${['Caller', 'Account', 'State', 'Prices', right('Rows'), 'Trouble']}>
        ${accounts.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td><${State} kind=${STATES[one.state]}>${one.state}<//></td><td>${one.rate_card ? 'the rate card' : 'its own'}</td><td class="right">${count(one.rows)}</td><td class="words">${one.problem ? html`<${Problem} problem=${one.problem} />` : '–'}</td></tr>`)}
      <//></section>`
    }
    ${
      refused.length > 0 &&
      html`<section class="sheet wide"><h2>Rows that were refused</h2>
      <${Table} label="Rows that were refused" head=${Object.keys(refused[0]).map(words)}>
        ${refused.map((one) => html`<tr>${Object.values(one).map((value) => html`<td class="words">${typeof value === 'object' ? JSON.stringify(value) : value}</td>`)}</tr>`)}
      <//></section>`
    }
  </div>`
}

const STATE_ORDER = ['absent', 'stale', 'starting', 'fresh']

/** No upstream is found, or none is there. */
function None({ q }) {
  if (q) return html`<p class="empty">No upstream matches. Use fewer words.</p>`
  return html`<div class="empty"><p>No upstream is read: the feed stays empty.</p>
    <p>Name one under <code>upstreams</code> in the configuration, or a registry that lists some under <code>registries</code>.</p>
  </div>`
}

/** How many there are in each state. */
function States({ states }) {
  return html`<p class="total states">${STATE_ORDER.filter((state) => states[state] > 0).map(
    (state) => html`<${State} kind=${STATES[state]}><strong>${count(states[state])}</strong> ${state}<//>`,
  )}</p>`
}

export function Upstreams({ params, pulse }) {
  const id = params.get('id')
  const query = new URLSearchParams(id ? { id } : { q: params.get('q') ?? '' }).toString()
  const { value, error } = useAnswer((signal) => get(`upstreams?${query}`, signal), query, pulse.operations)
  usePlace(value)
  if (id && value?.total === 0)
    return html`<p class="trouble">No upstream that is called ${id} is read now.</p><${Excluded} excluded=${value.excluded} />`
  if (id && value)
    return html`<${One} upstream=${value.upstreams[0]} means=${value.means} pulse=${pulse.operations} />`
  return html`<h1 class="hidden">Upstreams</h1>
    ${!id && html`<div class="search-line"><${Search} label="Search upstreams" params=${params} hint="Search upstreams by id, name or url" /></div>`}
    <${Trouble} error=${error} />
    ${!value && !error && html`<p class="hint">Loading</p>`}
    ${
      value &&
      !id &&
      html`<${States} states=${value.states} />
      ${
        value.total === 0
          ? html`<${None} q=${params.get('q')} />`
          : html`<${Table} label="Upstreams" head=${HEAD}>${value.upstreams.map((one) => html`<${Row} key=${one.id} upstream=${one} means=${value.means} />`)}<//>`
      }
      ${value.total > value.upstreams.length && html`<p class="hint">The first ${count(value.upstreams.length)} of ${count(value.total)}: search for others.</p>`}
      <${Excluded} excluded=${value.excluded} />
      <${Registries} registries=${value.registries} />`
    }`
}
