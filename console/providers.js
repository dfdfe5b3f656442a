// Providers: whose word is held, how old it is, and what is wrong with it.
import { usePlace } from './address.js'
import { get } from './api.js'
import { bytes, count } from './format.js'
import { html } from './h.js'
import { Act, Problem, right, Search, State, Table, Trouble, useAnswer, When } from './parts.js'

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

export function Providers({ params, pulse }) {
  const q = params.get('q') ?? ''
  const { value, error } = useAnswer(
    (signal) => get(`providers?${new URLSearchParams({ q })}`, signal),
    q,
    pulse.operations,
  )
  usePlace(value)
  return html`<h1 class="hidden">Providers</h1>
    <div class="search-line"><${Search} label="Search providers" params=${params} hint="Search providers by domain" /></div>
    <${Trouble} error=${error} />
    ${
      value &&
      html`<p class="total"><strong>${count(value.total)}</strong> ${value.total === 1 ? 'provider' : 'providers'}</p>
      ${
        value.total === 0
          ? html`<p class="empty">${q ? 'No provider matches. Use fewer words.' : 'No upstream lists a signal of a provider, so no file is read.'}</p>`
          : html`<${Table} label="Providers" head=${['Domain', 'State', right('Size'), right('Signals'), 'Agents', 'Confirmed', 'Proves until', 'Trouble', 'Action']}>
        ${value.providers.map(
          (one) => html`<tr key=${one.domain}>
          <td class="signal"><a href=${`/?provider=${encodeURIComponent(one.domain)}`}>${one.domain}</a>${one.file && html`<span class="under">${one.file.url}</span>`}</td>
          <td>${stateOf(one)}</td>
          <td class="right">${bytes(one.file?.bytes)}</td>
          <td class="right">${one.file ? count(one.file.signals) : '–'}</td>
          <td class="names"><${Agents} file=${one.file} /></td>
          <td class="tight"><${When} at=${one.confirmed_at} /></td>
          <td class="tight"><${When} at=${one.proves_until} /></td>
          <td class="words">${one.problem ? html`<${Problem} problem=${one.problem} />` : '–'}${one.held_pointer && html`<div>its new pointer is held: it counts <${When} at=${one.held_pointer.adopt_at} /></div>`}</td>
          <td><${Act} action="refresh-provider" subject=${one.domain} label="Fetch now" done="Asked" /></td>
        </tr>`,
        )}
      <//>`
      }`
    }`
}
