// Every state of the page is its address: the parameters after the question mark, and nothing else.
import { useEffect, useState } from './lib/hooks.js'

const listeners = new Set()

const current = () => new URLSearchParams(location.search)

function changed() {
  const now = current()
  for (const listener of listeners) listener(now)
}

let left = history.state?.top // where the step that was come back to was left; undefined once it is shown there

addEventListener('popstate', () => {
  left = kept().top
  changed()
})

addEventListener('scrollend', () => {
  if (left === undefined) remember({ top: scrollY })
})

/** Scrolls to where the page was left, once after each step back or forward, when its `value` is there. */
export function usePlace(value) {
  useEffect(() => {
    if (!value) return
    if (left !== undefined) scrollTo(0, left)
    left = undefined
  }, [value])
}

/**
 * What a step of the history holds besides its address: `pages` that are shown, the parts that are `open`, and the `top` where
 * it was left.
 */
export const kept = () => history.state ?? {}

const remember = (values) => history.replaceState({ ...kept(), ...values }, '')

export function keep(values) {
  remember(values)
  changed()
}

/** For a part that can be opened: it is as it was left when the step is come back to. */
export function keptOpen(name) {
  const { open = [] } = kept()
  const onToggle = ({ target }) => {
    const others = (kept().open ?? []).filter((one) => one !== name)
    remember({ open: target.open ? [...others, name] : others })
  }
  return { open: open.includes(name), onToggle }
}

/** What a page is about; the rest of its address says which part of it. */
const subject = (params) => ['page', 'signal', 'id'].map((name) => params.get(name)).join(' ')

/** Goes to an address; `replace` leaves no step behind in the history. */
export function go(params, { replace = false } = {}) {
  const text = params.toString()
  const url = text === '' ? '/' : `/?${text}`
  const isOther = subject(params) !== subject(current())
  left = undefined
  if (replace) history.replaceState(null, '', url)
  else {
    remember({ top: scrollY })
    history.pushState(null, '', url)
  }
  changed()
  if (isOther) scrollTo(0, 0)
}

export function useAddress() {
  const [params, setParams] = useState(current)
  useEffect(() => {
    listeners.add(setParams)
    return () => listeners.delete(setParams)
  }, [])
  return params
}

/** The address of a page: `{ page: 'upstreams' }`, `{ signal: handle }`. */
export function href(values) {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== undefined) params.append(name, value)
  return `/?${params}`
}

/** A click on a link of ours changes the address without loading the page again. */
export function follow(event) {
  const link = event.target.closest?.('a[href^="/?"], a[href="/"]')
  if (!link || event.defaultPrevented || event.button !== 0) return
  if (event.metaKey || event.ctrlKey || event.shiftKey || link.target) return
  event.preventDefault()
  go(new URLSearchParams(link.search))
}
