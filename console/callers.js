// Callers and their accounts, and what operators did.
import { get } from './api.js'
import { count, moment } from './format.js'
import { html } from './h.js'
import { Act, State, Table, Trouble, useAnswer, useTick } from './parts.js'
import { STATES } from './upstreams.js'

const target = ({ platform, agent_url: url, account }) =>
  `${platform ?? url}${account ? ` (${account})` : ''}`

export function Callers({ pulse, who }) {
  const { value, error } = useAnswer((signal) => get('callers', signal), pulse.operations)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { callers, accounts, anonymous, jwt, rate_limit: limit } = value
  return html`<h1 class="hidden">Callers</h1>
    <div class="cards"><${Table} label="Callers" head=${['Caller', 'Role', 'Key', 'Signs', 'Activation keys for', 'Accounts', 'Own credentials at', 'Action']}>
      ${callers.map(
        (one) => html`<tr>
        <td class="signal">${one.id}</td><td>${one.role}</td>
        <td data-label="Key">${one.has_key ? 'yes' : 'JWT'}</td><td data-label="Signs">${one.signs}</td>
        <td class="words" data-label="Activation keys for">${one.destinations.map(target).join(', ') || 'none'}</td>
        <td class="words" data-label="Accounts">${one.accounts.join(', ') || 'none'}</td>
        <td class="words" data-label="Own credentials at">${one.credentials_for.join(', ') || 'none'}</td>
        <td>${
          one.id === who.caller.id
            ? 'you'
            : one.suspended
              ? html`<${State} kind="bad">suspended<//> <${Act} action="resume-caller" subject=${one.id} label="Resume" done="Resumed" />`
              : html`<${Act} action="suspend-caller" subject=${one.id} label="Suspend" done="Suspended" warning=${`Its calls and sessions are refused at once. Suspend ${one.id}?`} />`
        }</td>
      </tr>`,
      )}
    <//></div>
    <p class="hint section">Without a key: ${anonymous === 'deny' ? 'nothing' : 'the feed without prices and keys'}. ${jwt ? `JWTs of ${jwt.issuer} are taken. ` : ''}Each may ask ${count(limit.per_second)} times a second, ${count(limit.burst)} at once.</p>
    ${
      accounts.length > 0 &&
      html`<h2 class="section">Accounts</h2>
      <${Table} label="Accounts" head=${['Caller', 'Account', 'Upstream', 'State', 'Prices', 'Trouble']}>
        ${accounts.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td>${one.upstream}</td><td><${State} kind=${STATES[one.state]}>${one.state}<//></td><td>${one.rate_card ? 'the rate card' : `${count(one.rows)} rows of its own`}</td><td class="words">${one.problem?.message ?? '–'}</td></tr>`)}
      <//>`
    }`
}

export function Audit({ pulse }) {
  const tick = useTick(5_000)
  const { value, error } = useAnswer((signal) => get('audit', signal), `${pulse.operations} ${tick}`)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  return html`<h1 class="hidden">Audit</h1>
    ${
      value.entries.length === 0
        ? html`<p class="empty">No operator has done anything yet.</p>`
        : html`<div class="cards"><${Table} label="What operators did" head=${['When', 'Who', 'Did', 'To', 'Outcome']}>
        ${value.entries.map((one) => html`<tr><td class="tight">${moment(one.at)}</td><td>${one.who}</td><td>${one.action.replaceAll('-', ' ')}</td><td class="words">${one.subject}</td><td data-label="Outcome">${one.outcome}</td></tr>`)}
      <//></div>`
    }`
}
