// Hears from the server that something has changed, and says when it does not hear any more.
import { useEffect, useState } from './lib/hooks.js'

const SILENT_MS = 25_000 // the server says something every ten seconds

/** `pulse` changes when something that the page shows has; `lostAt`: since when the server is not heard. */
export function useLive() {
  const [live, setLive] = useState({ pulse: {}, lostAt: undefined })
  useEffect(() => {
    const source = new EventSource('/console/api/live')
    let silence
    const lost = () => setLive((before) => ({ ...before, lostAt: before.lostAt ?? Date.now() }))
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(lost, SILENT_MS)
    }
    source.addEventListener('changed', (event) => {
      heard()
      setLive({ pulse: JSON.parse(event.data), lostAt: undefined })
    })
    source.addEventListener('beat', () => {
      heard()
      setLive((before) => (before.lostAt ? { ...before, lostAt: undefined } : before))
    })
    source.addEventListener('error', lost)
    heard()
    return () => {
      clearTimeout(silence)
      source.close()
    }
  }, [])
  return live
}
