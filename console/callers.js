// Callers and their accounts, and the server itself: what runs, and from which configuration.
import { get } from './api.js'
import { ago, bytes, count, moment } from './format.js'
import { html } from './h.js'
import { Act, Facts, State, Table, Trouble, useAnswer } from './parts.js'
import { STATES } from './upstreams.js'

const target = ({ platform, agent_url: url, account }) =>
  `${platform ?? url}${account ? ` (${account})` : ''}`

export function Callers({ pulse, who }) {
  const { value, error } = useAnswer((signal) => get('callers', signal), pulse.operations)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { callers, accounts, anonymous, jwt, rate_limit: limit } = value
  return html`<h1 class="hidden">Callers</h1>
    <${Table} label="Callers" head=${['Caller', 'Role', 'Key', 'Signs', 'Activation keys for', 'Accounts', 'Own credentials at', 'Action']}>
      ${callers.map(
        (one) => html`<tr>
        <td>${one.id}</td><td>${one.role}</td><td>${one.has_key ? 'yes' : 'JWT'}</td><td>${one.signs}</td>
        <td class="words">${one.destinations.map(target).join(', ') || 'none'}</td>
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
        ${accounts.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td>${one.upstream}</td><td><${State} kind=${STATES[one.state]}>${one.state}<//></td><td>${one.rate_card ? 'the rate card' : `${count(one.rows)} rows of its own`}</td><td class="words">${one.problem?.message ?? '–'}</td></tr>`)}
      <//>`
    }`
}

export function Audit({ pulse }) {
  const { value, error } = useAnswer((signal) => get('audit', signal), pulse.operations)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  return html`<h1 class="hidden">Audit</h1>
    ${
      value.entries.length === 0
        ? html`<p class="empty">No operator has done anything yet.</p>`
        : html`<${Table} label="What operators did" head=${['When', 'Who', 'Did', 'To', 'Outcome']}>
        ${value.entries.map((one) => html`<tr><td class="tight">${moment(one.at)}</td><td>${one.who}</td><td>${one.action.replace('-', ' ')}</td><td class="words">${one.subject}</td><td>${one.outcome}</td></tr>`)}
      <//>`
    }`
}

export function Server({ pulse }) {
  const { value, error } = useAnswer((signal) => get('overview', signal), pulse.operations)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { feed, configuration, memory } = value
  const { built, wanted, behind_ms: behind } = feed.revision
  return html`<h1 class="hidden">Server</h1>
    <div class="sheets">
      <section class="sheet"><h2>Feed</h2><${Facts} of=${[
        ['Signals', count(feed.signals)],
        ['Snapshot', html`<span class="mono">${feed.snapshot ?? 'none yet'}</span>`],
        ['Published', feed.published_at && `${moment(feed.published_at)} (${ago(feed.published_at)})`],
        [
          'Revision',
          built === wanted
            ? html`<${State} kind="good">${built}, everything is published<//>`
            : html`<${State} kind="wait">${built} of ${wanted}, behind for ${count(Math.round(behind / 1_000))} s<//>`,
        ],
      ]} /></section>
      <section class="sheet"><h2>Configuration</h2><${Facts} of=${[
        ['In force', html`<span class="mono">${configuration.revision}</span>`],
        [
          'The file',
          configuration.problem
            ? html`<${State} kind="bad">refused<//>`
            : html`<${State} kind="good">is in force<//>`,
        ],
      ]} />${configuration.problem && html`<pre class="trouble" tabindex="0">${configuration.problem}</pre>`}</section>
      <section class="sheet"><h2>Memory of rows</h2><${Facts} of=${[
        ['In use', bytes(memory.used_bytes)],
        ['Limit', bytes(memory.limit_bytes)],
        ['Gave way', count(memory.evictions)],
      ]} /></section>
    </div>`
}
