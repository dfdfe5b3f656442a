// The server itself: what it publishes, from which configuration, and which limits are near.
import { usePlace } from './address.js'
import { get } from './api.js'
import { bytes, count, percent, words } from './format.js'
import { html } from './h.js'
import { Facts, right, State, Table, Trouble, useAnswer, When } from './parts.js'

const LIMITS = {
  memory: ['Rows of upstreams', 'times rows gave way'],
  under_way: ['Answers being read', 'answers given up'],
  provider_bytes: ['Provider files', 'files refused now'],
}

function Feed({ feed }) {
  const { built, wanted, behind_ms: behind } = feed.revision
  return html`<section class="sheet"><h2>Feed</h2><${Facts} of=${[
    ['Signals', count(feed.signals)],
    ['Snapshot', html`<span class="mono">${feed.snapshot ?? 'none yet'}</span>`],
    ['Published', feed.published_at && html`<${When} at=${feed.published_at} isExact />`],
    [
      'Revision',
      built === wanted
        ? html`<${State} kind="good">${built}, everything is published<//>`
        : html`<${State} kind="wait">${built} of ${wanted}, behind for ${count(Math.round(behind / 1_000))} s<//>`,
    ],
  ]} /></section>`
}

/** Processes on one storage by the configuration that they run. */
function Replicas({ revision, replicas }) {
  if (!replicas) return html`one process`
  return Object.entries(replicas).map(
    ([its, number]) =>
      html`<div><${State} kind=${its === revision ? 'good' : 'bad'}>${count(number)} run <span class="mono">${its}</span><//></div>`,
  )
}

function Configuration({ configuration }) {
  const { revision, file, problem, replicas } = configuration
  return html`<section class="sheet"><h2>Configuration</h2><${Facts} of=${[
    ['In force', html`<span class="mono">${revision}</span>`],
    ['Processes', html`<${Replicas} revision=${revision} replicas=${replicas} />`],
    ['File', html`<span class="mono">${file}</span>`],
    [
      'As it stands',
      problem ? html`<${State} kind="bad">refused<//>` : html`<${State} kind="good">is in force<//>`,
    ],
  ]} />${problem && html`<pre class="trouble" tabindex="0" aria-label="Why the file is refused">${problem}</pre>`}</section>`
}

function Limits({ limits, refused_rows: refused, limited_callers: limited }) {
  const rows = Object.entries(refused).sort(([, one], [, other]) => other - one)
  return html`<section class="sheet wide"><h2>Limits</h2>
    <${Facts} of=${[
      [
        'Refused rows',
        rows.map(([reason, number]) => `${count(number)} ${words(reason)}`).join(', ') || 'none',
      ],
      [
        'Asked too much',
        limited.map(({ caller, times }) => `${caller} (${count(times)} times)`).join(', ') || 'nobody',
      ],
    ]} />
    <${Table} label="Limits" head=${['What', right('In use'), right('Limit'), right('Share'), 'Was hit']}>
      ${limits.map((one) => {
        const [title, hits] = LIMITS[one.name]
        return html`<tr><td>${title}</td><td class="right">${bytes(one.used_bytes)}</td><td class="right">${bytes(one.limit_bytes)}</td>
        <td class="right">${percent((100 * one.used_bytes) / one.limit_bytes)}</td>
        <td>${one.hits === 0 ? html`<${State} kind="good">never<//>` : html`<${State} kind="wait">${count(one.hits)} ${hits}<//>`}</td></tr>`
      })}
    <//></section>`
}

export function Server({ pulse }) {
  const { value, error } = useAnswer((signal) => get('overview', signal), 'overview', pulse.operations)
  usePlace(value)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  return html`<h1 class="hidden">Server</h1>
    <div class="sheets">
      <${Feed} feed=${value.feed} />
      <${Configuration} configuration=${value.configuration} />
      <${Limits} ...${value} />
      <section class="sheet wide"><h2>What is in force</h2>
        <p class="hint">The configuration as its file says it, variables filled in, secrets left out. Everything else has its default.</p>
        <pre tabindex="0" aria-label="The configuration in force">${value.configuration.content}</pre>
      </section>
    </div>`
}
