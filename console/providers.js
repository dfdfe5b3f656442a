// Providers: whose word is held, how old it is, and what is wrong with it.
import { get } from './api.js'
import { ago, bytes, count, moment } from './format.js'
import { html } from './h.js'
import { Act, right, Search, State, Table, Trouble, useAnswer } from './parts.js'

function stateOf({ file, problem }) {
  if (!problem)
    return file ? html`<${State} kind="good">held<//>` : html`<${State} kind="wait">not read yet<//>`
  return file
    ? html`<${State} kind="wait">held, in trouble<//>`
    : html`<${State} kind="bad">proves nothing<//>`
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
      <${Table} label="Providers" head=${['Domain', 'State', 'File', right('Size'), 'Confirmed', 'Proves until', 'Trouble', 'Action']}>
        ${value.providers.map(
          (one) => html`<tr>
          <td><a href=${`/?provider=${encodeURIComponent(one.domain)}`}>${one.domain}</a></td>
          <td>${stateOf(one)}</td>
          <td class="words">${one.file?.url ?? '–'}</td>
          <td class="right">${bytes(one.file?.bytes)}</td>
          <td class="tight" title=${moment(one.confirmed_at)}>${ago(one.confirmed_at)}</td>
          <td class="tight" title=${moment(one.proves_until)}>${ago(one.proves_until)}</td>
          <td class="words">${one.problem?.message ?? '–'}${one.held_pointer && html`<div>its new pointer is held until ${moment(one.held_pointer.adopt_at)}</div>`}</td>
          <td><${Act} action="refresh-provider" subject=${one.domain} label="Fetch now" done="Asked" /></td>
        </tr>`,
        )}
      <//>`
    }`
}
