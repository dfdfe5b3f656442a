/**
 * What an agent of the demo market asks for a signal: every pricing model of the specification ("PricingOption"),
 * dealt by chance, and prices that move together when the agent reprices.
 */
import type { PricingOption } from '../src/adcp/signal.js'
import type { Market, MarketSignal } from './market.js'
import type { Profile } from './profiles.js'

/** Who asks: the public rate card, or the account that negotiated lower prices. */
export type RateCard = { kind: 'public' | 'gold'; repriced: number }

const GOLD_DISCOUNT = 0.8
const REPRICE_STEP = 0.05
const PER_YEN = 140 // one unit of the other currencies, near enough for a demo

function round(price: number, currency: string): number {
  return currency === 'JPY' ? Math.round(price * PER_YEN) : Math.round(price * 100) / 100
}

function optionIdOf(profile: Profile, signal: MarketSignal, model: string): string {
  return profile.sharedOptionIds
    ? `std_${model}`
    : `${profile.handlePrefix}${signal.index.toString(36)}_${model}`
}

/** Undefined when the signal is bundled into the destination's products and has no price of its own. */
export function pricesOf(
  market: Market,
  profile: Profile,
  signal: MarketSignal,
  card: RateCard,
): PricingOption[] | undefined {
  const { index, slot } = signal
  const { currency } = signal.place
  const dealt = market.chance(index, 'pricing models')
  if ('owner' in slot && dealt < 0.06) return undefined
  const level =
    profile.priceLevel * (card.kind === 'gold' ? GOLD_DISCOUNT : 1) * (1 + REPRICE_STEP * card.repriced)
  const list = 0.6 + 6 * market.chance(index, 'list price') ** 2 + (signal.subject.restricted ? 0.8 : 0)
  const price = (factor: number) => round(list * level * factor, currency)
  const id = (model: string) => optionIdOf(profile, signal, model)
  const options: PricingOption[] = []
  if (dealt < 0.92) options.push({ pricing_option_id: id('cpm'), model: 'cpm', cpm: price(1), currency })
  if (dealt < 0.25 || dealt >= 0.92) {
    options.push({
      pricing_option_id: id('share'),
      model: 'percent_of_media',
      percent: Math.round(80 + 80 * market.chance(index, 'percent')) / 10,
      max_cpm: price(1.5),
      currency,
    })
  }
  if (dealt >= 0.25 && dealt < 0.35) {
    const period = dealt < 0.3 ? 'monthly' : 'campaign'
    options.push({ pricing_option_id: id('flat'), model: 'flat_fee', amount: price(900), period, currency })
  }
  if (dealt >= 0.35 && dealt < 0.42) {
    const unit = 'activated_profile'
    options.push({
      pricing_option_id: id('unit'),
      model: 'per_unit',
      unit,
      unit_price: price(0.02),
      currency,
    })
  }
  if ('owner' in slot && slot.kind === 'custom') {
    options.push({
      pricing_option_id: id('quote'),
      model: 'custom',
      description: 'Build fee and a share of media, quoted for the brief.',
      metadata: {
        build_fee: price(400),
        minimum_weeks: 4,
        summary_for_operator: 'Quote within two working days.',
      },
      currency,
    })
  }
  return options
}
