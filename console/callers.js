// Callers and their accounts, and what operators did.
import { usePlace } from './address.js'
import { get } from './api.js'
import { count, destination } from './format.js'
import { html } from './h.js'
import { Act, Problem, State, Table, Trouble, useAnswer, useTick, When } from './parts.js'
import { STATES } from './upstreams.js'

export function Callers({ pulse, who }) {
  const { value, error } = useAnswer((signal) => get('callers', signal), 'callers', pulse.operations)
  usePlace(value)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { callers, accounts, anonymous, jwt, rate_limit: limit } = value
  return html`<h1 class="hidden">Callers</h1>
    <${Table} label="Callers" head=${['Caller', 'Role', 'Key', 'Signs', 'Activation keys for', 'Accounts', 'Own credentials at', 'Action']}>
      ${callers.map(
        (one) => html`<tr key=${one.id}>
        <td class="signal">${one.id}</td><td>${one.role}</td>
        <td>${one.has_key ? 'yes' : 'JWT'}</td><td>${one.signs}</td>
        <td class="words">${one.destinations.map(destination).join(', ') || 'none'}</td>
        <td class="words">${one.accounts.join(', ') || 'none'}</td>
        <td class="words">${one.credentials_for.join(', ') || 'none'}</td>
        <td>${
          one.id === who.caller.id
            ? 'you'
            : one.suspended
              ? html`<${State} kind="bad">suspended<//> <${Act} action="resume-caller" subject=${one.id} label="Resume" done="Resumed" />`
              : html`<${Act} action="suspend-caller" subject=${one.id} label="Suspend" done="Suspended" warning=${`Its calls and sessions are refused at once. Suspend ${one.id}?`} />`
        }</td>
      </tr>`,
      )}
    <//>
    <p class="hint section">Without a key: ${anonymous === 'deny' ? 'nothing' : 'the feed without prices and keys'}. ${jwt ? `JWTs of ${jwt.issuer} are taken. ` : ''}Each may ask ${count(limit.per_second)} times a second, ${count(limit.burst)} at once.</p>
    ${
      accounts.length > 0 &&
      html`<h2 class="section">Accounts</h2>
      <${Table} label="Accounts" head=${['Caller', 'Account', 'Upstream', 'State', 'Prices', 'Trouble']}>
        ${accounts.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td>${one.upstream}</td><td><${State} kind=${STATES[one.state]}>${one.state}<//></td><td>${one.rate_card ? 'the rate card' : `${count(one.rows)} rows of its own`}</td><td class="words">${one.problem ? html`<${Problem} problem=${one.problem} />` : '–'}</td></tr>`)}
      <//>`
    }`
}

export function Audit({ pulse }) {
  const tick = useTick(5_000)
  const { value, error } = useAnswer((signal) => get('audit', signal), 'audit', `${pulse.operations} ${tick}`)
  usePlace(value)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  return html`<h1 class="hidden">Audit</h1>
    ${
      value.entries.length === 0
        ? html`<p class="empty">No operator has done anything yet.</p>`
        : html`<${Table} label="What operators did" head=${['Did', 'To', 'Who', 'When', 'Outcome']}>
        ${value.entries.map((one) => html`<tr><td>${one.action.replaceAll('-', ' ')}</td><td class="words">${one.subject}</td><td>${one.who}</td><td><${When} at=${one.at} isExact /></td><td>${one.outcome}</td></tr>`)}
      <//>`
    }`
}
