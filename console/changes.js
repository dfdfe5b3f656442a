// What happened to one signal: when it came, left, moved, and how its price and coverage went.
import { amount, count, percent, words } from './format.js'
import { html } from './h.js'
import { right, Table, When } from './parts.js'
import { Plot } from './plot.js'

const KINDS = {
  created: 'came',
  updated: 'changed',
  priced: 'priced anew',
  removed: 'left',
  many: 'perhaps changed',
}

const cpm = (standing) => (standing?.cpm === undefined ? '–' : amount(standing.cpm, standing.currency))
/** One value, or both where they differ. */
const moved = (text, { before, after }) => {
  const [was, is] = [text(before), text(after)]
  return !before || was === is ? is : !after ? was : html`${was} → <strong>${is}</strong>`
}
const coverage = (standing) => percent(standing?.coverage)
const sellers = (standing) => count(standing?.sellers)

/** What stood before the first change, after each, and now. */
function pointsOf(changes) {
  const known = changes.filter(({ kind }) => kind !== 'many')
  const [first] = known
  if (!first) return undefined
  const last = known.at(-1)
  const standings = [first.before, ...known.map(({ after }) => after), last.after]
  const seconds = (at) => new Date(at).getTime() / 1_000
  const span = Math.max(1_800, (Date.now() / 1_000 - seconds(first.at)) / 20)
  const at = [seconds(first.at) - span, ...known.map((one) => seconds(one.at)), Date.now() / 1_000]
  const column = (name) => standings.map((standing) => standing?.[name] ?? null)
  return {
    at,
    cpm: column('cpm'),
    coverage: column('coverage'),
    currency: (last.after ?? last.before)?.currency,
  }
}

function Plots({ changes }) {
  const points = pointsOf(changes)
  if (!points) return null
  const isKnown = (values) => values.some((value) => value !== null)
  const price = (value) => amount(value, points.currency)
  return html`<div class="plots">
    ${isKnown(points.cpm) && html`<${Plot} title="Lowest CPM" at=${points.at} format=${price} isStepped lines=${[['CPM', points.cpm, '--accent']]} />`}
    ${isKnown(points.coverage) && html`<${Plot} title="Coverage" at=${points.at} format=${percent} isStepped lines=${[['coverage', points.coverage, '--good']]} />`}
  </div>`
}

/** Absent: it is not known now, or not told to this reader. */
export function Changes({ changes }) {
  if (!changes) return null
  return html`<section class="sheet wide"><h2>Over time</h2>
    ${
      changes.length === 0
        ? html`<p class="hint">Nothing about it has changed since changes are kept.</p>`
        : html`<${Plots} changes=${changes} />
      <${Table} label="Changes" head=${['It', 'When', 'What', right('Lowest CPM'), right('Coverage'), right('Sellers')]}>
        ${[...changes].reverse().map(
          (change) => html`<tr>
          <td class="tight">${KINDS[change.kind]}</td>
          <td><${When} at=${change.at} isExact /></td>
          <td class="words">${change.kind === 'many' ? `one of ${count(change.count)} signals that changed at once, or not` : change.fields?.map(words).join(', ') || '–'}</td>
          <td class="right">${moved(cpm, change)}</td>
          <td class="right">${moved(coverage, change)}</td>
          <td class="right">${moved(sellers, change)}</td>
        </tr>`,
        )}
      <//>`
    }
  </section>`
}
