/**
 * What currencies are worth, by the table of the configuration: the only thing by which prices of different currencies are
 * ever compared. No price is shown converted.
 */
import { currencyNumber } from '../merge/pricing.js'

export type Rates = {
  /** The day that the table is of. */
  asOf: string
  /** Of one unit of each currency, all in the same measure. */
  worth: ReadonlyMap<string, number>
}

/** An amount in another currency; undefined when the table does not have both. */
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

/** What an amount comes to in its own currency and in each that it can be converted to, by the currency's number. */
export function amountsIn(amount: number, currency: string, rates: Rates | undefined): [number, number][] {
  const others = rates?.worth.has(currency) ? rates.worth.keys() : [currency]
  return [...new Set([currency, ...others])]
    .map((one): [number, number] => [currencyNumber(one), converted(amount, currency, one, rates) as number])
    .sort(([a], [b]) => a - b)
}
