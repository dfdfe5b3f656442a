// What buyers did, and what is still under way.
import { href } from './address.js'
import { get } from './api.js'
import { ago, count, moment, words } from './format.js'
import { html } from './h.js'
import { right, State, Table, Trouble, useAnswer } from './parts.js'

const OUTCOMES = {
  completed: 'good',
  pending: 'wait',
  submitted: 'wait',
  superseded: 'off',
  failed: 'bad',
  unknown: 'bad',
}

const signalOf = (handle) => handle.split('.')[0]

export function Activity({ pulse }) {
  const { value, error } = useAnswer((signal) => get('activity', signal), pulse.operations)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { activations, jobs, subscriptions } = value
  return html`<h1 class="hidden">Activity</h1>
    <h2>Activations</h2>
    ${
      activations.length === 0
        ? html`<p class="empty">Nobody has activated anything yet.</p>`
        : html`<${Table} label="Activations" head=${['Asked', 'Caller', 'Did', 'Signal', 'Upstream', 'Seen there as', 'Outcome', 'Since']}>
        ${activations.map(
          (one) => html`<tr>
          <td class="tight">${moment(one.asked_at)}</td><td>${one.caller}</td><td>${one.action}</td>
          <td class="mono"><a href=${href({ signal: signalOf(one.handle) })}>${one.handle}</a></td>
          <td>${one.upstream}</td><td>${one.seen_as === 'own' ? 'the caller' : 'this agent'}</td>
          <td><${State} kind=${OUTCOMES[one.outcome]}>${one.outcome}<//></td>
          <td class="tight" title=${moment(one.updated_at)}>${ago(one.updated_at)}</td>
        </tr>`,
        )}
      <//>`
    }
    <h2 class="section">Under way</h2>
    ${
      jobs.length === 0
        ? html`<p class="empty">No job is open.</p>`
        : html`<${Table} label="Open jobs" head=${['Kind', 'For', right('Open')]}>
        ${jobs.map((one) => html`<tr><td>${words(one.kind)}</td><td class="words">${one.lane || '–'}</td><td class="right">${count(one.open)}</td></tr>`)}
      <//>`
    }
    ${
      subscriptions.length > 0 &&
      html`<h2 class="section">Subscriptions to the feed</h2>
      <${Table} label="Subscriptions" head=${['Caller', 'Account', 'Subscriber', 'State']}>
        ${subscriptions.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td>${one.subscriber}</td><td>${one.suspended ? html`<${State} kind="bad">suspended<//>` : html`<${State} kind="good">told<//>`}</td></tr>`)}
      <//>`
    }`
}
