// Hears from the server that something has changed, and says when it does not hear any more.
import { useEffect, useState } from './lib/hooks.js'

const SILENT_MS = 25_000 // the server says something every ten seconds
const AGAIN_MS = { first: 3_000, last: 48_000 } // each pause is twice the one before

/**
 * `pulse` changes when something that the page shows has; `lostAt`: since when the server is not heard. `onShut`: called when
 * the server does not let it listen. A page that nobody sees does not listen: browsers open six connections to one server,
 * and the next page would wait for them.
 */
export function useLive(onShut) {
  const [live, setLive] = useState({ pulse: {}, lostAt: undefined })
  useEffect(() => {
    let source
    let silence
    let again
    let pause = AGAIN_MS.first
    const lost = () => setLive((before) => ({ ...before, lostAt: before.lostAt ?? Date.now() }))
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(lost, SILENT_MS)
    }
    const listenLater = () => {
      again = setTimeout(listen, pause)
      pause = Math.min(2 * pause, AGAIN_MS.last)
    }
    /** A browser gives up for good where an answer is none of events, as a proxy gives while the server starts. */
    function listen() {
      source = new EventSource('/console/api/live')
      source.addEventListener('open', () => {
        pause = AGAIN_MS.first
      })
      source.addEventListener('changed', (event) => {
        heard()
        setLive({ pulse: JSON.parse(event.data), lostAt: undefined })
      })
      source.addEventListener('beat', () => {
        heard()
        setLive((before) => (before.lostAt ? { ...before, lostAt: undefined } : before))
      })
      source.addEventListener('error', () => {
        lost()
        if (source.readyState !== EventSource.CLOSED) return
        onShut()
        listenLater()
      })
      heard()
    }
    function stop() {
      clearTimeout(silence)
      clearTimeout(again)
      source?.close()
    }
    function seen() {
      stop()
      if (!document.hidden) listen()
    }
    seen()
    document.addEventListener('visibilitychange', seen)
    return () => {
      document.removeEventListener('visibilitychange', seen)
      stop()
    }
  }, [])
  return live
}
