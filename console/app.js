// The page: who is signed in, which part is shown, and the bar above it.
import { Activity } from './activity.js'
import { follow, href, useAddress } from './address.js'
import { againAfter, onOtherSession, send, session } from './api.js'
import { Audit, Callers } from './callers.js'
import { Feed } from './feed.js'
import { moment } from './format.js'
import { html } from './h.js'
import { useEffect, useErrorBoundary, useRef, useState } from './lib/hooks.js'
import { render } from './lib/preact.js'
import { useLive } from './live.js'
import { Trouble } from './parts.js'
import { Providers } from './providers.js'
import { Server } from './server.js'
import { Signal } from './signal.js'
import { Upstreams } from './upstreams.js'

/** Its name in the address: title, component, and the role that it is for. */
const PAGES = {
  feed: ['Feed', Feed],
  upstreams: ['Upstreams', Upstreams, 'operator'],
  providers: ['Providers', Providers, 'operator'],
  callers: ['Callers', Callers, 'operator'],
  activity: ['Activity', Activity, 'operator'],
  server: ['Server', Server, 'operator'],
  audit: ['Audit', Audit, 'operator'],
}

function SignIn({ onDone }) {
  const [error, setError] = useState()
  const [isBusy, setBusy] = useState(false)
  async function submit(event) {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await send('POST', 'session', { key: new FormData(event.target).get('key') })
      await onDone()
      throw new Error('The browser keeps no cookie of this address, so the key opens no session here') // else this form would be gone
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return html`<main class="sign-in">
    <form onSubmit=${submit}>
      <h1><img src="/console/icon.svg" alt="" width="28" height="28" />Tributary</h1>
      <label for="key">Key</label>
      <input id="key" name="key" type="password" required autocomplete="current-password" autofocus spellcheck=${false} />
      <${Trouble} error=${error} />
      <button type="submit" disabled=${isBusy}>Sign in</button>
      <p class="hint">The bearer key of a caller. An operator's key shows everything, a buyer's key what that buyer may see.</p>
    </form>
  </main>`
}

/** Whoever is told to be signed out is: the cookie is gone, or the server says that it opens nothing. */
function SignOut({ onDone }) {
  const [error, setError] = useState()
  async function leave() {
    setError(undefined)
    try {
      await send('DELETE', 'session')
    } catch (failed) {
      if (failed.status !== 401) return setError(failed)
    }
    return onDone()
  }
  return html`${error && html`<span class="trouble" role="alert">Not signed out: ${error.message}</span>`}
    <button type="button" class="quiet" onClick=${leave}>Sign out</button>`
}

function Bar({ who, page, onOut }) {
  const nav = useRef()
  useEffect(
    () =>
      nav.current.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }),
    [page],
  )
  const pages = Object.entries(PAGES).filter(([, [, , role]]) => !role || role === who.caller.role)
  return html`<header class="bar">
    <a class="skip" href="#content">Skip to content</a>
    <a class="brand" href="/"><img src="/console/icon.svg" alt="" width="22" height="22" /><span>Tributary</span></a>
    <nav ref=${nav} aria-label="Pages">${pages.map(
      ([name, [title]]) =>
        html`<a href=${name === 'feed' ? '/' : href({ page: name })} aria-current=${page === name ? 'page' : undefined}>${title}</a>`,
    )}</nav>
    <span class="who"><span title=${`role: ${who.caller.role}`}>${who.caller.id}</span>
    <${SignOut} onDone=${onOut} /></span>
  </header>`
}

/**
 * What cannot be drawn leaves the bar and the other pages as they are; another address is tried again. The address is no key
 * here: each field would be made anew, without its focus, when what is typed there changes it.
 */
function Drawn({ params, children }) {
  const [error, again] = useErrorBoundary()
  useEffect(() => {
    if (error) again()
  }, [params])
  if (!error) return children
  return html`<p class="trouble" role="alert">This page cannot be drawn (${error.message}). The other pages can; its data is at <code>/console/api</code>.</p>`
}

function Shell({ who, onOut }) {
  const params = useAddress()
  const { pulse, lostAt } = useLive(onOut)
  const signal = params.get('signal')
  const page = signal ? 'signal' : (params.get('page') ?? 'feed')
  const [title, Page, role] = Object.hasOwn(PAGES, page) ? PAGES[page] : []
  useEffect(() => {
    if (title) document.title = `${title} · Tributary`
  }, [title])
  const isOpen = Page && (!role || role === who.caller.role)
  // What the page is about is its key: it never shows the answer about another.
  const shown = signal
    ? html`<${Signal} key=${signal} id=${signal} account=${params.get('account')} who=${who} pulse=${pulse} />`
    : isOpen
      ? html`<${Page} key=${params.get('id')} params=${params} who=${who} pulse=${pulse} />`
      : html`<p class="trouble">There is no such page for this key.</p>`
  return html`<div onClick=${follow}>
    <${Bar} who=${who} page=${page} onOut=${onOut} />
    ${lostAt && html`<p class="lost" role="alert">The server has not been heard since ${moment(lostAt)}. What is shown may be old; the page tries again by itself.</p>`}
    <main id="content" tabindex="-1"><${Drawn} params=${params}>${shown}<//></main>
  </div>`
}

function App() {
  const [who, setWho] = useState(null)
  const [error, setError] = useState()
  async function look() {
    try {
      setWho(await session())
      setError(undefined)
    } catch (failed) {
      setError(failed)
    }
  }
  useEffect(() => {
    look()
    return onOtherSession(look)
  }, [])
  useEffect(() => {
    const pause = error && againAfter(error)
    if (pause === undefined) return undefined
    const timer = setTimeout(look, pause)
    return () => clearTimeout(timer)
  }, [error])
  if (who === null) return html`<main class="sign-in"><${Trouble} error=${error} /></main>`
  if (!who.caller) return html`<${SignIn} onDone=${look} />`
  return html`<${Shell} key=${who.caller.id} who=${who} onOut=${look} />`
}

render(html`<${App} />`, document.getElementById('app'))
