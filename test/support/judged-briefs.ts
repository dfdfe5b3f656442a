/**
 * Briefs as buyers write them, with what a person who knows the demo market would want to see. The market is crossed
 * from themes, subjects, stances, places and windows (sandbox/vocabulary.ts), so a judgement names those.
 */
import type { MarketSignal } from '../../sandbox/market.js'

export type Wanted = {
  /** Any of these is what the brief is about. */
  subjects?: readonly string[]
  /** All subjects of these themes are. */
  themes?: readonly string[]
  stances?: readonly string[]
  places?: readonly string[]
  windows?: readonly string[]
}
export type JudgedBrief = { brief: string; wanted: Wanted }

const judged = (brief: string, wanted: Wanted): JudgedBrief => ({ brief, wanted })

const EV = ['Electric SUV', 'Electric Vehicle', 'Plug-In Hybrid', 'Home Wallbox']
const FOOTBALL = ['Football League', 'Champions Nights']

export const JUDGED_BRIEFS: readonly JudgedBrief[] = [
  judged('EV intenders in Germany', { subjects: EV, stances: ['In-Market Intenders'], places: ['Germany'] }),
  judged('people in the market for an electric vehicle', { subjects: EV, stances: ['In-Market Intenders'] }),
  judged('Who is shopping for electric cars in the US?', {
    subjects: EV,
    stances: ['In-Market Intenders'],
    places: ['United States', 'US and Canada'],
  }),
  judged('SUV owners', { subjects: ['Electric SUV', 'Compact SUV'], stances: ['Owners'] }),
  judged('luxury sedan buyers who visited a dealership', {
    subjects: ['Luxury Sedan'],
    stances: ['Dealer Visitors'],
  }),
  judged('pickup truck intenders, last 30 days', {
    subjects: ['Full-Size Pickup'],
    stances: ['In-Market Intenders'],
    windows: ['30 Days'],
  }),
  judged('drivers likely to switch brand on a minivan', {
    subjects: ['Minivan'],
    stances: ['Likely Switchers'],
  }),
  judged('certified used cars, purchase propensity', {
    subjects: ['Certified Pre-Owned Car'],
    stances: ['Purchase Propensity'],
  }),
  judged('motorcycle owners in Italy', { subjects: ['Motorcycle'], stances: ['Owners'], places: ['Italy'] }),
  judged('camper van and motorhome enthusiasts in France', { subjects: ['Camper Van'], places: ['France'] }),
  judged('car insurance prospects UK', { subjects: ['Car Insurance'], places: ['United Kingdom'] }),
  judged('home charger for electric car', { subjects: ['Home Wallbox'] }),
  judged('winter tires', { subjects: ['Winter Tires'] }),
  judged('first car buyers', { subjects: ['First Car'] }),
  judged('organic food shoppers', { subjects: ['Organic Produce'], stances: ['Frequent Buyers'] }),
  judged('vegan and plant based protein households', { subjects: ['Plant-Based Protein'] }),
  judged('craft beer frequent buyers in the Nordics', {
    subjects: ['Craft Beer'],
    stances: ['Frequent Buyers'],
    places: ['Nordics'],
  }),
  judged('coffee lovers', { subjects: ['Premium Coffee', 'Espresso Machines'] }),
  judged('parents buying diapers', { subjects: ['Baby Care'] }),
  judged('dog owners', { subjects: ['Dog Food'] }),
  judged('cat litter lapsed buyers', { subjects: ['Cat Food'], stances: ['Lapsed Buyers'] }),
  judged('frozen pizza promotion seekers', { subjects: ['Frozen Pizza'], stances: ['Promotion Seekers'] }),
  judged('lactose free', { subjects: ['Lactose-Free Dairy'] }),
  judged('new to energy drinks', { subjects: ['Energy Drinks'], stances: ['New-to-Category Buyers'] }),
  judged('bbq barbecue season shoppers in Australia', {
    subjects: ['Barbecue Season'],
    places: ['Australia'],
  }),
  judged('households that switched away from own label staples', {
    subjects: ['Own-Label Staples'],
    stances: ['Lapsed Buyers'],
  }),
  judged('chocolate gifts 90 days', { subjects: ['Chocolate Gifts'], windows: ['90 Days'] }),
  judged('allergy sufferers', { subjects: ['Seasonal Allergy Relief'] }),
  judged('migraine and headache care researchers', { subjects: ['Migraine Care'], stances: ['Researchers'] }),
  judged('gluten free diet buyers', { subjects: ['Gluten-Free Diet'], stances: ['Buyers'] }),
  judged('quit smoking products', { subjects: ['Smoking Cessation'] }),
  judged('home fitness and workout equipment', { subjects: ['Home Fitness'] }),
  judged('expecting mothers prenatal vitamins', { subjects: ['Prenatal Vitamins'] }),
  judged('people who use wellness apps', {
    subjects: ['Home Fitness', 'Prenatal Vitamins', 'Vitamin D and Minerals', 'Plant-Based Protein'],
  }),
  judged('contact lens wearers', { subjects: ['Contact Lenses'] }),
  judged('IT decision makers for cybersecurity', {
    subjects: ['Cybersecurity'],
    stances: ['Decision Makers'],
  }),
  judged('infosec platform evaluators', { subjects: ['Cybersecurity'], stances: ['Active Evaluators'] }),
  judged('companies moving to the cloud, intent surge', {
    subjects: ['Cloud Migration'],
    stances: ['Intent Surge'],
  }),
  judged('CRM software buyers B2B', { subjects: ['CRM Software'] }),
  judged('payroll systems decision makers in Spain', {
    subjects: ['HR and Payroll'],
    stances: ['Decision Makers'],
    places: ['Spain and Portugal'],
  }),
  judged('company size bands of fleet managers', {
    subjects: ['Fleet Management'],
    stances: ['Company Size Bands'],
  }),
  judged('generative AI tools practitioners', {
    subjects: ['Generative AI Tools'],
    stances: ['Practitioners'],
  }),
  judged('commercial insurance for businesses', { subjects: ['Commercial Insurance'] }),
  judged('mortgage seekers in Poland', {
    subjects: ['Mortgage'],
    stances: ['Seekers'],
    places: ['Poland and Czechia'],
  }),
  judged('home loan shoppers', { subjects: ['Mortgage'], stances: ['Seekers'] }),
  judged('travel rewards credit card holders', { subjects: ['Travel Credit Card'], stances: ['Holders'] }),
  judged('affluent investors in ETFs', { subjects: ['ETF Investing'], stances: ['Affluence Bands'] }),
  judged('student loan seekers', { subjects: ['Student Loan'], stances: ['Seekers'] }),
  judged('retirement savers', { subjects: ['Retirement Savings'] }),
  judged('local election voters, persuadable', { subjects: ['Local Elections'], stances: ['Persuadable'] }),
  judged('people who care about data privacy', { subjects: ['Data Privacy'] }),
  judged('beach vacation planners', { subjects: ['Beach Holiday'], stances: ['Planners'] }),
  judged('ski trips booked in the last 7 days', {
    subjects: ['Ski Trip'],
    stances: ['Bookers'],
    windows: ['7 Days'],
  }),
  judged('family cruise', { subjects: ['Family Cruise'] }),
  judged('long haul flyers departing this month', {
    subjects: ['Long-Haul Flight'],
    stances: ['Departure Horizon'],
  }),
  judged('luxury hotel and resort travelers', { subjects: ['Luxury Resort'] }),
  judged('crime drama binge watchers', { subjects: ['Crime Drama'], stances: ['Binge Viewers'] }),
  judged('ad supported streaming viewers of korean drama', {
    subjects: ['Korean Drama'],
    stances: ['Ad-Tier Viewers'],
  }),
  judged('kids animation', { subjects: ['Kids Animation'] }),
  judged('football fans', {
    subjects: FOOTBALL,
    stances: ['Fan Intensity', 'Second-Screen Fans', 'Live Viewers'],
  }),
  judged('live basketball viewers', { subjects: ['Basketball'], stances: ['Live Viewers'] }),
  judged('golf fans second screen', { subjects: ['Golf'], stances: ['Second-Screen Fans'] }),
  judged('sports enthusiasts', { themes: ['sport'] }),
  judged('running shoes cart abandoners', { subjects: ['Running Shoes'], stances: ['Cart Abandoners'] }),
  judged('skincare and beauty repeat purchasers', { subjects: ['Skincare'], stances: ['Repeat Purchasers'] }),
  judged('e-bike shoppers Benelux', { subjects: ['E-Bikes'], places: ['Benelux'] }),
  judged('new parents moving house', { subjects: ['New Parents Moving Home'] }),
  judged('gamers', { subjects: ['Gamers Turning Viewers', 'Board Games'] }),
  judged('home improvement and renovation', { subjects: ['Weekend Renovators', 'Home Makeover'] }),
  judged('meal kit lookalike audience', { subjects: ['Meal Kit Subscribers'] }),
  judged('online grocery converts lookalike narrow', {
    subjects: ['Online Grocery Converts'],
    stances: ['Lookalike, Narrow'],
  }),
  judged('electirc suv intendors', {
    subjects: ['Electric SUV'],
    stances: ['In-Market Intenders'],
  }),
  judged('cybersecuirty desicion makers', { subjects: ['Cybersecurity'], stances: ['Decision Makers'] }),
]

/** 0: about something else. 1: the subject. 2 and 3: with all but one, with all of the other wishes. */
export function grade(
  { subjects, themes, stances, places, windows }: Wanted,
  signal: MarketSignal,
): 0 | 1 | 2 | 3 {
  const about = subjects?.includes(signal.subject.name) ?? themes?.includes(signal.theme.key) ?? false
  if (!about) return 0
  const wishes: [readonly string[] | undefined, string][] = [
    [stances, signal.stance.label],
    [places, signal.place.label],
    [windows, signal.window.label],
  ]
  const missed = wishes.filter(([wish, label]) => wish && !wish.includes(label)).length
  return missed === 0 ? 3 : missed === 1 ? 2 : 1
}

/** How good an order is against the best possible one, 0 to 1. */
export function ndcg(grades: readonly number[], all: readonly number[], depth: number): number {
  const gain = (list: readonly number[]) =>
    list.slice(0, depth).reduce((sum, value, at) => sum + (2 ** value - 1) / Math.log2(at + 2), 0)
  const ideal = gain([...all].sort((one, other) => other - one))
  return ideal === 0 ? 1 : gain(grades) / ideal
}

/** Of the rows that fulfil the brief (at most `depth` count), the share found in the first `depth`. */
export function recall(grades: readonly number[], all: readonly number[], depth: number): number {
  const best = Math.max(...all)
  const wanted = Math.min(depth, all.filter((value) => value === best).length)
  return Math.min(1, grades.slice(0, depth).filter((value) => value === best).length / wanted)
}
