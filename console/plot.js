// A plot of some lines over time. Colours are those of the page, also when the reader turns the lights off.
import { html } from './h.js'
import { useEffect, useRef } from './lib/hooks.js'
import uPlot from './lib/uplot.js'

const HEIGHT = 150
const SHORTEST_S = 1_800 // what little is known is not stretched over years
// Of a single point uPlot would show the years behind it.
const withStart = ([first, ...more], start) => (more.length > 0 ? [first, ...more] : [start, first])
const FEW = 40 // so few points are drawn as points too

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

function axis(more) {
  return {
    stroke: () => colour('--soft'),
    grid: { stroke: () => colour('--faint'), width: 1 },
    ticks: { stroke: () => colour('--faint'), width: 1, size: 4 },
    font: '11px system-ui, sans-serif',
    ...more,
  }
}

/** `lines`: [label, values, variable of the colour]; `at`: seconds since the epoch; `isStepped`: a value holds until the next. */
export function Plot({ title, at, lines, format, isStepped }) {
  const place = useRef()
  const shown = JSON.stringify([at, lines])
  useEffect(() => {
    const { current: element } = place
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT,
      cursor: { points: { size: 6 } },
      legend: { live: true },
      scales: {
        x: { range: (_plot, low, high) => [Math.min(low, high - SHORTEST_S), high] },
        y: { range: (_plot, low, high) => [0, Math.max(1, (high ?? 1) * 1.1, low ?? 0)] },
      },
      axes: [axis({}), axis({ size: 56, values: (_plot, values) => values.map(format) })],
      series: [
        { label: 'at', value: (_plot, value) => (value ? new Date(value * 1_000).toLocaleString() : '–') },
        ...lines.map(([label, , name]) => ({
          label,
          stroke: () => colour(name),
          width: 1.5,
          ...(isStepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
          points: { show: at.length <= FEW, size: 5 },
          value: (_plot, value) => (value === null || value === undefined ? '–' : format(value)),
        })),
      ],
    }
    const columns = lines.map(([, values]) => withStart(values, null))
    const plot = new uPlot(options, [withStart(at, at[0] - SHORTEST_S), ...columns], element)
    const watch = new ResizeObserver(() =>
      plot.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }),
    )
    watch.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const redraw = () => plot.redraw()
    scheme.addEventListener('change', redraw)
    return () => {
      scheme.removeEventListener('change', redraw)
      watch.disconnect()
      plot.destroy()
    }
  }, [shown])
  const last = lines.map(
    ([label, values]) => `${label} ${values.at(-1) === null ? 'none' : format(values.at(-1) ?? 0)}`,
  )
  return html`<figure class="plot"><figcaption>${title}</figcaption>
    <div ref=${place} role="img" aria-label=${`${title}: ${last.join(', ')}`}></div>
  </figure>`
}
