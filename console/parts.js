// Small parts that several pages are made of.
import { go } from './address.js'
import { againAfter, send } from './api.js'
import { ago, moment, words } from './format.js'
import { html } from './h.js'
import { useEffect, useLayoutEffect, useRef, useState } from './lib/hooks.js'

const TYPING_MS = 120
const LOST_MS = 60_000 // a connection may be gone without a word
const SIGNS = { good: '●', wait: '◐', bad: '▲', off: '○' }

/** A state told by a sign, a word and a colour. */
export function State({ kind, children }) {
  return html`<span class=${`state ${kind}`}><span class="sign" aria-hidden="true">${SIGNS[kind]}</span>${children}</span>`
}

/** Also where the page came over plain HTTP from another machine, to which browsers give no clipboard. */
async function putOnClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export function Copy({ text, label }) {
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return undefined
    const timer = setTimeout(() => setDone(false), 1_500)
    return () => clearTimeout(timer)
  }, [done])
  const copy = async () => {
    await putOnClipboard(text())
    setDone(true)
  }
  return html`<button type="button" class="quiet" onClick=${copy}>${done ? 'Copied' : label}</button>`
}

/** `isPassing`: the page asks again, as `useAnswer` does. */
export function Trouble({ error, isPassing }) {
  if (!error) return null
  return html`<p class="trouble" role="alert">${error.message}${isPassing && '. The page asks again by itself.'}</p>`
}

/**
 * Reads the answer to `question`, and again whenever `news` changes; the last answer stays while the next is awaited. News that
 * come meanwhile wait for that answer: they may come faster than answers do. What passes by itself, or is lost, is asked again, and
 * takes no answer to the same question away.
 */
export function useAnswer(read, question, news) {
  const [state, setState] = useState({ isLoading: true })
  const drawn = useRef()
  drawn.current = { read, news }
  const asker = useRef()
  // With what is drawn, not after it: an answer that came in between was shown although something else was asked by then.
  useLayoutEffect(() => {
    const abort = new AbortController()
    let timer
    let isAwaited = false
    const answered = (value) => setState({ question, value, isLoading: false })
    const failed = (error) => {
      const pause = againAfter(error)
      if (pause !== undefined) timer = setTimeout(ask, pause)
      setState((before) => {
        const isKnown = pause !== undefined && before.value !== undefined && before.question === question
        return isKnown ? { ...before, isLoading: false } : { question, error, isLoading: false }
      })
    }
    function ask() {
      if (isAwaited) return
      clearTimeout(timer)
      isAwaited = true
      const asked = drawn.current
      const ended = (show) => (outcome) => {
        if (abort.signal.aborted) return
        isAwaited = false
        show(outcome)
        if (drawn.current.news !== asked.news) ask()
      }
      setState((before) => ({ ...before, isLoading: true }))
      const signal = AbortSignal.any([abort.signal, AbortSignal.timeout(LOST_MS)])
      asked.read(signal).then(ended(answered), ended(failed))
    }
    asker.current = ask
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [question])
  useLayoutEffect(() => asker.current(), [question, news])
  return state
}

/** Another number every so often, for what no event tells: it is read again. Not while nobody looks. */
export function useTick(ms) {
  const [tick, setTick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setTick((before) => before + 1), ms)
    return () => clearInterval(timer)
  }, [ms])
  return tick
}

const clocks = new Set()
setInterval(() => {
  if (!document.hidden) for (const look of clocks) look()
}, 1_000)

/** How long ago `at` was, or in what time it will be. What is due and has not happened yet is due now. */
function fromNow(at, isDue) {
  const now = Date.now()
  return ago(isDue ? Math.max(new Date(at).getTime(), now) : at, now)
}

/**
 * When something was or will be, in words that stay true while the page stands. The exact time is its title, or beside it:
 * `isExact`. `isDue`: something that is about to happen, also when its time has come.
 */
export function When({ at, isExact, isDue }) {
  const [, setShown] = useState() // equal words draw nothing again, of a thousand rows either
  useEffect(() => {
    if (!at) return undefined
    const look = () => setShown(fromNow(at, isDue))
    clocks.add(look)
    return () => clocks.delete(look)
  }, [at, isDue])
  if (!at) return '–'
  const relative = fromNow(at, isDue)
  return html`<time datetime=${new Date(at).toISOString()} title=${moment(at)}>${isExact ? html`${moment(at)} <span class="hint">${relative}</span>` : relative}</time>`
}

/**
 * A field that looks for something while it is typed. What is looked for is part of the address, once the typing pauses or
 * the field is left; not when another address was gone to meanwhile.
 */
export function Search({ label, params, hint, id = 'search-q' }) {
  const [typed, setTyped] = useState() // what the address does not say yet
  const waits = useRef()
  useEffect(() => () => clearTimeout(waits.current?.timer), [])
  function settle() {
    const { current } = waits
    if (!current) return
    clearTimeout(current.timer)
    waits.current = undefined
    setTyped(undefined)
    if (location.search !== current.from) return
    const next = new URLSearchParams(current.from)
    for (const name of ['after', 'sort', 'q']) next.delete(name)
    if (current.text.trim() !== '') next.set('q', current.text)
    go(next, { replace: true })
  }
  function input({ target: { value } }) {
    setTyped(value)
    clearTimeout(waits.current?.timer)
    waits.current = { text: value, from: location.search, timer: setTimeout(settle, TYPING_MS) }
  }
  function submit(event) {
    event.preventDefault()
    settle()
  }
  return html`<form role="search" class="search" onSubmit=${submit}>
    <label class="hidden" for=${id}>${label}</label>
    <input id=${id} type="search" value=${typed ?? params.get('q') ?? ''} onInput=${input} onBlur=${settle} placeholder=${hint} autocomplete="off" spellcheck=${false} />
  </form>`
}

const ARROWS = { none: '', ascending: ' ↑', descending: ' ↓' }

/**
 * Tells each cell its column, for phones, where a row is a card without heads, and whether it says nothing. Rows and cells
 * say what they are, as a browser takes a table that is drawn as cards for no table.
 */
function toldColumns(table, texts) {
  for (const row of table.tBodies[0].rows) {
    row.setAttribute('role', 'row')
    ;[...row.cells].forEach((cell, at) => {
      cell.setAttribute('role', cell.tagName === 'TH' ? 'rowheader' : 'cell')
      cell.dataset.label = texts[at] ?? ''
      cell.toggleAttribute('data-none', ['', '–'].includes(cell.textContent.trim()))
    })
  }
}

/** A table that scrolls sideways in itself and can be reached by keyboard; on a phone each row is a card. */
export function Table({ label, head, children }) {
  const table = useRef()
  const heads = head.map((one) => (typeof one === 'string' ? { text: one } : one))
  useLayoutEffect(() =>
    toldColumns(
      table.current,
      heads.map(({ text }) => text),
    ),
  )
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table role="table" ref=${table}>
      <thead role="rowgroup"><tr role="row">${heads.map(
        ({ text, right, sorted, onSort }) =>
          html`<th scope="col" role="columnheader" class=${right ? 'right' : ''} aria-sort=${sorted}>${
            onSort
              ? html`<button type="button" class="head" onClick=${onSort}>${text}<span class="arrow" aria-hidden="true">${ARROWS[sorted]}</span></button>`
              : text
          }</th>`,
      )}</tr></thead>
      <tbody role="rowgroup">${children}</tbody>
    </table>
  </div>`
}

export const right = (text) => ({ text, right: true })

/** Names and values, one under the other. */
export function Facts({ of }) {
  return html`<dl class="facts">${of
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** What it means, what came back, and what or who can change it. `problem.reason` is the word of logs and metrics. */
export function Problem({ problem: { reason, means, message, remedy } }) {
  return html`<div title=${reason}>${means ?? words(reason)}<span class="under">${message}</span>${remedy && html`<span class="under">To be changed by: ${remedy}</span>`}</div>`
}

/** Something an operator does, and what came of it. `warning`: asked before, where it takes something from somebody. */
export function Act({ action, subject, label, done, warning }) {
  const [state, setState] = useState({})
  async function act() {
    if (warning && !confirm(warning)) return
    setState({ isBusy: true })
    try {
      const { until } = await send('POST', 'actions', { action, subject })
      setState({ told: until ? `${done}, until the configuration is read again` : done })
    } catch (error) {
      setState({ error })
    }
  }
  return html`<span class="act">
    <button type="button" onClick=${act} disabled=${state.isBusy}>${label}</button>
    <span role="status">${state.told ?? state.error?.message ?? ''}</span>
  </span>`
}
