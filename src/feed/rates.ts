/**
 * Exchange rates from the table in the configuration: the only way in which prices in different currencies are
 * compared. No price is ever shown converted.
 */
import { currencyNumber } from '../merge/pricing.js'

export type Rates = {
  /** The date of the table. */
  asOf: string
  /** The value of one unit of each currency, in a common measure. */
  worth: ReadonlyMap<string, number>
}

/** An amount in another currency; undefined when the table lacks one of the two. */
export function converted(
  amount: number,
  from: string,
  to: string,
  rates: Rates | undefined,
): number | undefined {
  if (from === to) return amount
  const [own, other] = [rates?.worth.get(from), rates?.worth.get(to)]
  return own === undefined || other === undefined ? undefined : (amount * own) / other
}

/** An amount in its own currency and in each that it can be converted to, by currency number. */
export function amountsIn(amount: number, currency: string, rates: Rates | undefined): [number, number][] {
  const others = rates?.worth.has(currency) ? rates.worth.keys() : [currency]
  return [...new Set([currency, ...others])]
    .map((one): [number, number] => [currencyNumber(one), converted(amount, currency, one, rates) as number])
    .sort(([a], [b]) => a - b)
}
