// A plot of some lines over time. Colours are those of the page, also when the reader turns the lights off.
import { html } from './h.js'
import { useEffect, useRef, useState } from './lib/hooks.js'
import uPlot from './lib/uplot.js'

const HEIGHT = 150
const SHORTEST_S = 1_800 // what little is known is not stretched over years
// Of a single point uPlot would show the years behind it.
const withStart = ([first, ...more], start) => (more.length > 0 ? [first, ...more] : [start, first])
const FEW = 40 // so few points are drawn as points too

/** How much larger than usual the reader, or a wall, has the letters. */
const scale = () => Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 14
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat()

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

function axis(more) {
  return {
    stroke: () => colour('--soft'),
    grid: { stroke: () => colour('--faint'), width: 1 },
    ticks: { stroke: () => colour('--faint'), width: 1, size: 4 },
    font: `${Math.round(11 * scale())}px system-ui, sans-serif`,
    ...more,
  }
}

/** Whether the page is drawn dark now. */
function useDark() {
  const scheme = matchMedia('screen and (prefers-color-scheme: dark)')
  const [isDark, setDark] = useState(scheme.matches)
  useEffect(() => {
    const changed = () => setDark(scheme.matches)
    scheme.addEventListener('change', changed)
    return () => scheme.removeEventListener('change', changed)
  }, [])
  return isDark
}

/** Below the plot stand the values under the pointer, and the last ones while there is none. */
function showLast(plot) {
  if (plot.legend.idx == null) plot.setLegend({ idx: plot.data[0].length - 1 })
}

/**
 * `lines`: [label, values, variable of the colour]; `at`: seconds since the epoch; `isStepped`: a value holds until the
 * next; `isCounted`: between two whole numbers there is nothing.
 */
export function Plot({ title, at, lines, format, isStepped, isCounted }) {
  const place = useRef()
  const isDark = useDark()
  const shown = JSON.stringify([at, lines, isDark])
  useEffect(() => {
    const { current: element } = place
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT * scale(),
      hooks: { ready: [showLast], setLegend: [showLast] },
      cursor: { points: { size: 6 } },
      legend: { live: true },
      scales: {
        x: { range: (_plot, low, high) => [Math.min(low, high - SHORTEST_S), high] },
        y: { range: (_plot, low, high) => [0, Math.max(1, (high ?? 1) * 1.1, low ?? 0)] },
      },
      axes: [
        axis({ size: 50 * scale() }),
        axis({
          size: 56 * scale(),
          values: (_plot, values) => values.map(format),
          ...(isCounted && { incrs: WHOLE }),
        }),
      ],
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
      plot.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT * scale() }),
    )
    watch.observe(element)
    return () => {
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
