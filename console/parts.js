// Small parts that several pages are made of.
import { go } from './address.js'
import { send } from './api.js'
import { html } from './h.js'
import { useEffect, useState } from './lib/hooks.js'

const AGAIN_MS = 1_000 // a server that is still starting
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

export function Trouble({ error }) {
  if (!error) return null
  return html`<p class="trouble" role="alert">${error.message}</p>`
}

/** Reads something again whenever `key` changes; the last answer stays while the next is awaited. */
export function useAnswer(read, key) {
  const [state, setState] = useState({ isLoading: true })
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    const abort = new AbortController()
    let timer
    setState((before) => ({ ...before, isLoading: true }))
    const failed = (error) => {
      if (abort.signal.aborted) return
      setState({ error, isLoading: false })
      if (error.status === 503) timer = setTimeout(() => setAttempt((before) => before + 1), AGAIN_MS)
    }
    read(abort.signal).then((value) => abort.signal.aborted || setState({ value, isLoading: false }), failed)
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [key, attempt])
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

/** A field that looks for something while it is typed; what is looked for is part of the address. */
export function Search({ label, params, name = 'q', hint }) {
  const typed = (event) => {
    const next = new URLSearchParams(params)
    if (event.target.value) next.set(name, event.target.value)
    else next.delete(name)
    go(next, { replace: true })
  }
  return html`<form role="search" class="search search-line" onSubmit=${(event) => event.preventDefault()}>
    <label class="hidden" for=${`search-${name}`}>${label}</label>
    <input id=${`search-${name}`} type="search" value=${params.get(name) ?? ''} onInput=${typed} placeholder=${hint} autocomplete="off" spellcheck="false" />
  </form>`
}

const ARROWS = { none: '', ascending: ' ↑', descending: ' ↓' }

/** A table that scrolls sideways in itself and can be reached by keyboard. */
export function Table({ label, head, children }) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table>
      <thead><tr>${head.map((one) => {
        const { text, right, sorted, onSort } = typeof one === 'string' ? { text: one } : one
        return html`<th scope="col" class=${right ? 'right' : ''} aria-sort=${sorted}>${
          onSort
            ? html`<button type="button" class="head" onClick=${onSort}>${text}<span class="arrow" aria-hidden="true">${ARROWS[sorted]}</span></button>`
            : text
        }</th>`
      })}</tr></thead>
      <tbody>${children}</tbody>
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
