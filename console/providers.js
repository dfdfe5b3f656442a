// Providers: whose word is held, how old it is, and what is wrong with it.
import { get } from './api.js'
import { ago, bytes, count, moment, words } from './format.js'
import { html } from './h.js'
import { Act, right, Search, State, Table, Trouble, useAnswer } from './parts.js'

function stateOf({ file, problem }) {
  if (!problem)
    return file ? html`<${State} kind="good">held<//>` : html`<${State} kind="wait">not read yet<//>`
  return file
    ? html`<${State} kind="wait">held, in trouble<//>`
    : html`<${State} kind="bad">proves nothing<//>`
}

/** Whom the file lets sell something: how many, and the first of them where they are asked for. */
function Agents({ file }) {
  if (!file || file.agents === 0) return file ? '0' : '–'
  const more = file.agents - file.agent_urls.length
  return html`<details><summary>${count(file.agents)}</summary>${file.agent_urls.map((url) => html`<div>${url}</div>`)}${more > 0 && html`<div class="under">and ${count(more)} more</div>`}</details>`
}

/** What it means, then what came back. */
function Problem({ problem: { reason, means, message, remedy } }) {
  return html`<span title=${reason}>${means ?? words(reason)}</span><span class="under">${message}${remedy && `; what helps: ${remedy}`}</span>`
}

export function Providers({ params, pulse }) {
  const q = params.get('q') ?? ''
  const { value, error } = useAnswer(
    (signal) => get(`providers?${new URLSearchParams({ q })}`, signal),
    `${q} ${pulse.operations}`,
  )
  return html`<h1 class="hidden">Providers</h1>
    <${Search} label="Search providers" params=${params} hint="Search providers by domain" />
    <${Trouble} error=${error} />
    ${
      value &&
      html`<p class="total"><strong>${count(value.total)}</strong> ${value.total === 1 ? 'provider' : 'providers'}</p>
      <div class="cards"><${Table} label="Providers" head=${['Domain', 'State', right('Size'), right('Signals'), 'Agents', 'Confirmed', 'Proves until', 'Trouble', 'Action']}>
        ${value.providers.map(
          (one) => html`<tr>
          <td class="signal"><a href=${`/?provider=${encodeURIComponent(one.domain)}`}>${one.domain}</a>${one.file && html`<span class="under">${one.file.url}</span>`}</td>
          <td>${stateOf(one)}</td>
          <td class="right" data-label="Size">${bytes(one.file?.bytes)}</td>
          <td class="right" data-label="Signals">${one.file ? count(one.file.signals) : '–'}</td>
          <td class="names" data-label="Agents"><${Agents} file=${one.file} /></td>
          <td class="tight" data-label="Confirmed" title=${moment(one.confirmed_at)}>${ago(one.confirmed_at)}</td>
          <td class="tight" data-label="Proves until" title=${moment(one.proves_until)}>${ago(one.proves_until)}</td>
          <td class="words" data-label="Trouble">${one.problem ? html`<${Problem} problem=${one.problem} />` : '–'}${one.held_pointer && html`<div>its new pointer is held until ${moment(one.held_pointer.adopt_at)}</div>`}</td>
          <td><${Act} action="refresh-provider" subject=${one.domain} label="Fetch now" done="Asked" /></td>
        </tr>`,
        )}
      <//></div>`
    }`
}
