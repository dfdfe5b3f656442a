// Numbers, times and names as people read them, in the reader's own zone and language.

const counts = new Intl.NumberFormat()
const percents = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 })
const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })
const countryNames = new Intl.DisplayNames(undefined, { type: 'region' })

export const count = (value) => (value === undefined || value === null ? '–' : counts.format(value))
const LEAST = 0.1 // percent; what is less is not nothing
export function percent(value) {
  if (value === undefined || value === null) return '–'
  return value > 0 && value < LEAST / 2 ? `< ${percents.format(LEAST)} %` : `${percents.format(value)} %`
}

export function bytes(value) {
  if (value === undefined) return '–'
  const units = ['B', 'KB', 'MB', 'GB']
  let at = 0
  let left = value
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024
    at += 1
  }
  return `${percents.format(left)} ${units[at]}`
}

const currencies = new Map() // to make one takes longer than to draw the row that it is for
function inCurrency(currency) {
  const options = { style: 'currency', currency, maximumFractionDigits: 4 }
  if (!currencies.has(currency)) currencies.set(currency, new Intl.NumberFormat(undefined, options))
  return currencies.get(currency)
}

const LEAST_AMOUNT = 0.0001
export function amount(value, currency) {
  if (!currency) return percents.format(value)
  const { format } = inCurrency(currency)
  return value > 0 && value < LEAST_AMOUNT / 2 ? `< ${format(LEAST_AMOUNT)}` : format(value)
}

export const moment = (value) => (value ? times.format(new Date(value)) : '–')

const STEPS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

/** "3 minutes ago", "in 20 seconds". */
export function ago(value, now) {
  const seconds = (new Date(value).getTime() - now) / 1_000
  const [unit, size] = STEPS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1]
  return relative.format(Math.round(seconds / size), unit)
}

export function country(code) {
  try {
    return countryNames.of(code) ?? code
  } catch {
    return code
  }
}

/** One price in words. */
export function price(option) {
  const { model, currency } = option
  if (model === 'cpm') return `${amount(option.cpm, currency)} CPM`
  if (model === 'percent_of_media') {
    const cap = option.max_cpm === undefined ? '' : `, at most ${amount(option.max_cpm, currency)} CPM`
    return `${percent(option.percent)} of media${cap}`
  }
  if (model === 'flat_fee') return `${amount(option.amount, currency)} ${option.period}`
  if (model === 'per_unit') return `${amount(option.unit_price, currency)} per ${option.unit}`
  return option.description ?? model
}

/** The lowest CPM, else the first price. */
export function fromPrice(options = []) {
  const cpm = options.filter(({ model }) => model === 'cpm')
  if (cpm.length === 0) return options[0] ? price(options[0]) : '–'
  const lowest = cpm.reduce((best, one) => (one.cpm < best.cpm ? one : best))
  return amount(lowest.cpm, lowest.currency)
}

/** A deployment's target without the kind before it. */
export function target(deployment) {
  return deployment.type === 'platform' ? deployment.platform : host(deployment.agent_url)
}

export function host(url) {
  try {
    return new URL(url).host
  } catch {
    return url
  }
}

/** Where a signal goes or is used, as callers name it. */
export const destination = ({ platform, agent_url: url, account }) =>
  `${platform ?? url}${account ? ` (${account})` : ''}`

export const words = (name) => String(name).replaceAll('_', ' ')

/** A name that leaves something to see, and to click on: else the `handle`. */
export const named = (name, handle) => (/[\p{L}\p{N}\p{P}\p{S}]/u.test(name) ? name : handle)
