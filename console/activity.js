// What callers did, and what is still under way.
import { href, usePlace } from './address.js'
import { get } from './api.js'
import { count, destination, moment, named, words } from './format.js'
import { html } from './h.js'
import { Act, right, State, Table, Trouble, useAnswer, useTick, When } from './parts.js'

const AGAIN_MS = 5_000

const OUTCOMES = {
  completed: 'good',
  pending: 'wait',
  submitted: 'wait',
  superseded: 'off',
  failed: 'bad',
  unknown: 'bad',
}

const TASKS = { completed: 'good', failed: 'bad', rejected: 'bad', canceled: 'off' }
const CALLS = { answered: 'good', open: 'wait', superseded: 'off' }

const signalOf = (handle) => handle.split('.')[0]

/** An account as a caller names it: by its id, or by its brand. */
const accountOf = ({ account_id: id, brand }) => id ?? brand?.domain ?? '–'

/** What an operator can do about an outcome that nobody wants. */
function Failure({ of: { outcome, problem } }) {
  if (outcome === 'unknown')
    return html`<span class="under">The upstream did not say what came of it: ask whoever runs it, or look whether the signal is live there.</span>`
  if (!problem) return null
  const { code, message, upstream_code: upstream } = problem
  return html`<span class="under" title=${code}>${message}${upstream && ` It said ${upstream}.`}</span>`
}

function Activations({ activations }) {
  if (activations.length === 0) return html`<p class="empty">Nobody has activated anything yet.</p>`
  return html`<${Table} label="Activations" head=${['Signal', 'Did', 'For', 'To', 'At', 'Outcome', 'Asked']}>
    ${activations.map(
      (one) => html`<tr>
      <td class="signal"><a href=${href({ signal: signalOf(one.handle) })}>${named(one.name ?? '', one.handle)}</a>${one.name && html`<span class="under mono">${one.handle}</span>`}</td>
      <td>${one.action}</td>
      <td class="names">${one.caller}${one.account && html`<span class="under">account ${accountOf(one.account)}</span>`}</td>
      <td class="names">${one.destinations.map(destination).join(', ') || '–'}</td>
      <td class="names"><a href=${href({ page: 'upstreams', id: one.upstream })}>${one.upstream}</a><span class="under">seen there as ${one.seen_as === 'own' ? 'the caller' : 'this agent'}</span></td>
      <td class="names" title=${moment(one.updated_at)}><${State} kind=${OUTCOMES[one.outcome]}>${one.outcome}<//><${Failure} of=${one} /></td>
      <td class="tight"><${When} at=${one.asked_at} /></td>
    </tr>`,
    )}
  <//>`
}

/** Work that waits for somebody else, and what an operator can do about it. */
function Jobs({ tick }) {
  const { value, error } = useAnswer((signal) => get('jobs', signal), 'jobs', tick)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  if (value.jobs.length === 0) return html`<p class="empty">No job is open.</p>`
  return html`<${Table} label="Open jobs" head=${['Kind', 'For', 'Caller', 'Since', right('Attempts'), 'Next', 'Action']}>
    ${value.jobs.map(
      (one) => html`<tr key=${one.id}>
      <td>${words(one.kind)}</td><td class="words">${one.lane || '–'}</td><td>${one.caller || '–'}</td>
      <td class="tight"><${When} at=${one.created_at} /></td>
      <td class="right">${count(one.attempts)}</td>
      <td class="tight">${one.is_held ? html`<${State} kind="wait">at work<//>` : html`<${When} at=${one.next_attempt_at} isDue />`}</td>
      <td><${Act} action="retry-job" subject=${one.id} label="Try now" done="Tried again" />
      <${Act} action="give-up-job" subject=${one.id} label="Give up" done="Given up" warning="It is not tried again, and whoever waits for it is told that it failed. Give it up?" /></td>
    </tr>`,
    )}
  <//>`
}

function Tasks({ tasks }) {
  if (tasks.length === 0) return html`<p class="empty">No task is open, and none has ended lately.</p>`
  return html`<${Table} label="Tasks" head=${['Task', 'Caller', 'Upstream', 'State', 'Begun', 'Since', 'Id']}>
    ${tasks.map(
      (one) => html`<tr><td>${words(one.type)}</td><td>${one.caller}</td>
      <td>${one.upstream ?? 'all'}</td><td><${State} kind=${TASKS[one.status] ?? 'wait'}>${words(one.status)}<//></td>
      <td class="tight"><${When} at=${one.created_at} /></td><td class="tight"><${When} at=${one.updated_at} /></td><td class="mono">${one.id}</td></tr>`,
    )}
  <//>`
}

function Usage({ usage }) {
  if (usage.length === 0) return html`<p class="empty">Nobody has reported usage lately.</p>`
  return html`<${Table} label="Usage" head=${['Told to', 'Caller', right('Rows'), 'State', 'Reported']}>
    ${usage.map(
      (one) => html`<tr><td class="words">${one.agent_url}</td><td>${one.caller}</td>
      <td class="right">${count(one.rows)}</td><td><${State} kind=${CALLS[one.state] ?? 'bad'}>${one.state}<//></td><td class="tight"><${When} at=${one.reported_at} /></td></tr>`,
    )}
  <//>`
}

function deliveryState({
  suspended,
  reason,
  pending,
  failures,
  failing_since: since,
  next_attempt_at: next,
}) {
  if (suspended) return html`<${State} kind="bad">suspended<//><span class="under">${words(reason)}</span>`
  if (pending === 0) return html`<${State} kind="good">told everything<//>`
  const waiting = `${count(pending)} ${pending === 1 ? 'event waits' : 'events wait'}`
  if (failures === 0) return html`<${State} kind="wait">${waiting}<//>`
  return html`<${State} kind="bad">${waiting}<//><span class="under">${count(failures)} ${failures === 1 ? 'attempt' : 'attempts'} failed, the first <${When} at=${since} />; the next <${When} at=${next} isDue /></span>`
}

function Subscriptions({ subscriptions }) {
  if (subscriptions.length === 0) return html`<p class="empty">Nobody subscribes to the feed.</p>`
  return html`<${Table} label="Subscriptions" head=${['Caller', 'Account', 'Subscriber', 'At', 'Delivery']}>
    ${subscriptions.map((one) => html`<tr><td>${one.caller}</td><td>${one.account}</td><td>${one.subscriber}</td><td>${one.host ?? '–'}</td><td>${deliveryState(one)}</td></tr>`)}
  <//>`
}

export function Activity({ pulse }) {
  const tick = useTick(AGAIN_MS)
  const { value, error } = useAnswer(
    (signal) => get('activity', signal),
    'activity',
    `${pulse.operations} ${tick}`,
  )
  usePlace(value)
  if (error) return html`<${Trouble} error=${error} />`
  if (!value) return html`<p class="hint">Loading</p>`
  const { activations, tasks, usage, subscriptions } = value
  return html`<h1 class="hidden">Activity</h1>
    <div class="sheets">
      <section class="sheet wide"><h2>Activations</h2><${Activations} activations=${activations} /></section>
      <section class="sheet wide"><h2>Under way</h2><${Jobs} tick=${tick} /></section>
      <section class="sheet wide"><h2>Tasks</h2><${Tasks} tasks=${tasks} /></section>
      <section class="sheet wide"><h2>Usage</h2><${Usage} usage=${usage} /></section>
      <section class="sheet wide"><h2>Subscriptions to the feed</h2><${Subscriptions} subscriptions=${subscriptions} /></section>
    </div>`
}
