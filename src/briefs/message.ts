/**
 * An answer in one or two sentences: the best match, where it is live, what it costs (specification, "A brief-mode
 * agent should produce a `message` ..."). Names come from providers and upstreams: letters and digits are kept, markup
 * is removed.
 */
import { howMany } from '../adcp/answer.js'
import type { Deployment, PricingOption } from '../adcp/signal.js'
import type { ShownRelevance } from './ranking/order.js'
import type { UnderstoodWords } from './ranking/rank.js'

const NAME_LENGTH = 80
const MOST_PLACES = 3

type Row = { name: string; deployments: readonly Deployment[]; pricing_options?: readonly PricingOption[] }

type Outcome = {
  best: Row | undefined
  count: number
  total: number
  /** Upstreams that did not answer. */
  missing: number
  /** Whether the feed itself could be searched. */
  isSearched: boolean
  seesPrices: boolean
  /** The words of the question that the best match has and lacks. */
  relevance?: Pick<ShownRelevance, 'has' | 'lacks'>
  /** What was read from the words besides the subject. */
  read?: UnderstoodWords
}

/** A provider's or upstream's text without characters that could be read as markup in our sentence. */
function plain(text: string): string {
  const clean = text
    .replace(/[^\p{L}\p{M}\p{N} &,.+%$€£()/·:-]/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim()
  return clean.length > NAME_LENGTH ? `${clean.slice(0, NAME_LENGTH - 1)}…` : clean
}

function placeName(deployment: Deployment): string {
  if (deployment.type === 'platform') return plain(deployment.platform)
  return URL.canParse(deployment.agent_url) ? new URL(deployment.agent_url).host : 'a sales agent'
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, MOST_PLACES)
  const more = names.length - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

function whereLive({ deployments }: Row): string {
  const live = [...new Set(deployments.filter(({ is_live }) => is_live).map(placeName))]
  if (live.length > 0) return `live on ${listed(live)}`
  const possible = [...new Set(deployments.map(placeName))]
  if (possible.length === 0) return 'not deployed anywhere yet'
  const minutes = deployments
    .map((deployment) => deployment.estimated_activation_duration_minutes)
    .filter((estimate) => estimate !== undefined)
  const wait = minutes.length > 0 ? ` in about ${howMany(Math.min(...minutes), 'minute')}` : ''
  return `not live yet, can be activated on ${listed(possible)}${wait}`
}

function range(amounts: readonly number[], unit: string): string {
  const [low, high] = [Math.min(...amounts), Math.max(...amounts)]
  return low === high ? `${low} ${unit}` : `${low} to ${high} ${unit}`
}

function priceRange({ pricing_options: options = [] }: Row): string {
  const amounts = new Map<string, number[]>()
  const add = (unit: string, amount: number) => amounts.set(unit, [...(amounts.get(unit) ?? []), amount])
  for (const option of options) {
    if (option.model === 'cpm') add(`${option.currency} CPM`, option.cpm)
    else if (option.model === 'percent_of_media') add('percent of media', option.percent)
    else if (option.model === 'flat_fee') add(`${option.currency} ${option.period}`, option.amount)
    else if (option.model === 'per_unit')
      add(`${option.currency} per ${plain(option.unit)}`, option.unit_price)
    else amounts.set('custom terms', [])
  }
  const ranges = Array.from(amounts, ([unit, values]) => (values.length > 0 ? range(values, unit) : unit))
  return ranges.length > 0 ? ranges.join(' or ') : 'no price published'
}

/** The words of the question that the best match has, and those that it lacks. */
function fitText({ has, lacks }: Pick<ShownRelevance, 'has' | 'lacks'>): string {
  if (has.length + lacks.length === 0) return ''
  if (has.length === 0) return ' Nothing in it says what was asked.'
  const missing = lacks.length > 0 ? `, and nothing of ${listed(lacks.map(plain))}` : ''
  return ` It has ${listed(has.map(plain))}${missing}.`
}

/** What was read from the words, and which filter makes it apply to every row. */
function readText({
  countries,
  lookbackDays,
  maxCpm,
  platforms,
  isCut,
  isMet,
  ratesAsOf,
}: UnderstoodWords): string {
  const unit = maxCpm?.currency ?? 'of no currency, which nothing is compared with'
  const rates = ratesAsOf ? `, other currencies compared by rates of ${ratesAsOf}` : ''
  const price = maxCpm && `CPM up to ${maxCpm.amount} ${unit}${rates}`
  const parts = [
    ...(countries.length > 0 ? [`countries ${countries.join(', ')}`] : []),
    ...(platforms.length > 0 ? [`destinations ${listed(platforms.map(plain))}`] : []),
    ...(price ? [price] : []),
    ...(lookbackDays.length > 0
      ? [`last ${[...lookbackDays.slice(0, -1), howMany(lookbackDays.at(-1) as number, 'day')].join(' or ')}`]
      : []),
  ]
  const cut = isCut ? ' The question was too long to be read in full.' : ''
  if (parts.length === 0) return cut
  const first = isMet ? 'These come first' : 'No signal that is about this has all of it'
  return ` Read as: ${parts.join('; ')}. ${first}; send countries, destinations or filters to have nothing else.${cut}`
}

/** Said when no signal has a word of the question: those that upstreams returned all the same are on the next page. */
function onlyVouched(total: number): string {
  return `No signal matches the words. The next page has ${howMany(total, 'signal')} that upstreams returned for them, and that share none.`
}

/** The message of a brief answer. */
export function briefMessage(outcome: Outcome): string {
  const { best, count, total, missing, isSearched, seesPrices, relevance, read } = outcome
  const unsearched = isSearched ? '' : ' The newest feed is not searched yet: see incomplete.'
  const absent = missing === 0 ? '' : ` The answer lacks ${howMany(missing, 'upstream')}: see incomplete.`
  const lacking = unsearched + absent
  const understood = read ? readText(read) : ''
  if (!best) return `${total === 0 ? 'No signal matches.' : onlyVouched(total)}${understood}${lacking}`
  const price = seesPrices ? priceRange(best) : 'prices need credentials'
  const found = `${count} of ${howMany(total, 'matching signal')}.`
  return `Best match: "${plain(best.name)}", ${whereLive(best)}; ${price}.${relevance ? fitText(relevance) : ''} ${found}${understood}${lacking}`
}
