/**
 * Judged briefs whose words say more than what they are about: places in the languages of those who live there, durations in
 * words, prices and platforms, and slips of the pen. `read` is what must be understood beside the subject.
 */
import type { ReadAs } from '../../src/search/read-brief.js'
import type { JudgedBrief, Wanted } from './judged-briefs.js'

export type JudgedReading = JudgedBrief & { read: Partial<ReadAs> }

const US = ['United States', 'US and Canada']
const PL = ['Poland and Czechia']
const ES = ['Spain and Portugal']
const AU = ['Australia and New Zealand']

const judged = (brief: string, wanted: Wanted, read: Partial<ReadAs> = {}): JudgedReading => ({
  brief,
  wanted,
  read,
})
const about = (subject: string, ...places: string[]): Wanted => ({
  subjects: [subject],
  ...(places.length > 0 && { places }),
})
const EV = ['Electric SUV', 'Electric Vehicle', 'Plug-In Hybrid', 'Home Wallbox']
const SEEKERS = { stances: ['Seekers'] }
const PLANNERS = { stances: ['Planners'] }

/** Ids of the demo market's platforms. */
export const PLATFORMS = ['the-trade-desk', 'dv360', 'liveramp', 'index-exchange', 'amazon']

export const JUDGED_READINGS: readonly JudgedReading[] = [
  // Nothing about it is of the place: what it is about goes before where it is.
  judged('B2B software buyers in Germany', about('CRM Software', 'Germany'), { countries: ['DE'] }),
  // Places, in English and as people there call them.
  judged(
    'mortgage seekers in Deutschland',
    { ...about('Mortgage', 'Germany'), ...SEEKERS },
    { countries: ['DE'] },
  ),
  judged(
    'mortgage seekers Allemagne',
    { ...about('Mortgage', 'Germany'), ...SEEKERS },
    { countries: ['DE'] },
  ),
  judged(
    'ski trip bookers from Österreich or Germany',
    { ...about('Ski Trip', 'Germany'), stances: ['Bookers'] },
    { countries: ['AT', 'DE'] },
  ),
  judged(
    'beach holiday planners in Polska',
    { ...about('Beach Holiday', ...PL), ...PLANNERS },
    { countries: ['PL'] },
  ),
  judged('dog food in the Czech Republic', about('Dog Food', ...PL), { countries: ['CZ'] }),
  judged('craft beer, Tschechien', about('Craft Beer', ...PL), { countries: ['CZ'] }),
  judged(
    'luxury sedan owners in España',
    { ...about('Luxury Sedan', ...ES), stances: ['Owners'] },
    { countries: ['ES'] },
  ),
  judged(
    'motorcycle owners Portugal',
    { ...about('Motorcycle', ...ES), stances: ['Owners'] },
    { countries: ['PT'] },
  ),
  judged('premium coffee in Italia', about('Premium Coffee', 'Italy'), { countries: ['IT'] }),
  judged('family cruise, Großbritannien', about('Family Cruise', 'United Kingdom'), { countries: ['GB'] }),
  judged(
    'home insurance holders in Great Britain',
    { ...about('Home Insurance', 'United Kingdom'), stances: ['Holders'] },
    { countries: ['GB'] },
  ),
  judged(
    'golf live viewers, Royaume-Uni',
    { ...about('Golf', 'United Kingdom'), stances: ['Live Viewers'] },
    { countries: ['GB'] },
  ),
  judged(
    'student loan seekers in Sweden',
    { ...about('Student Loan', 'Nordics'), ...SEEKERS },
    { countries: ['SE'] },
  ),
  judged(
    'city break planners in Norge',
    { ...about('City Break', 'Nordics'), ...PLANNERS },
    { countries: ['NO'] },
  ),
  judged('winter sports fans Danmark', about('Winter Sports', 'Nordics'), { countries: ['DK'] }),
  judged('true crime podcasts Suomi', about('True Crime Podcasts', 'Nordics'), { countries: ['FI'] }),
  judged('cloud migration, Scandinavia', about('Cloud Migration', 'Nordics'), {
    countries: ['DK', 'FI', 'NO', 'SE'],
  }),
  judged('e-bikes in the Netherlands', about('E-Bikes', 'Benelux'), { countries: ['NL'] }),
  judged('e-bikes Holland', about('E-Bikes', 'Benelux'), { countries: ['NL'] }),
  judged('skincare in Belgique', about('Skincare', 'Benelux'), { countries: ['BE'] }),
  judged('smart home Niederlande', about('Smart Home', 'Benelux'), { countries: ['NL'] }),
  judged('ETF investing in Luxemburg', about('ETF Investing', 'Benelux'), { countries: ['LU'] }),
  judged(
    'full-size pickup owners in Canada',
    { ...about('Full-Size Pickup', 'US and Canada'), stances: ['Owners'] },
    { countries: ['CA'] },
  ),
  judged(
    'full-size pickup owners Kanada',
    { ...about('Full-Size Pickup', 'US and Canada'), stances: ['Owners'] },
    { countries: ['CA'] },
  ),
  judged('barbecue season in the USA', about('Barbecue Season', ...US), { countries: ['US'] }),
  judged('barbecue season, Vereinigte Staaten', about('Barbecue Season', ...US), { countries: ['US'] }),
  judged('retirement savings in America', about('Retirement Savings', ...US), { countries: ['US'] }),
  judged('board games in Japan', about('Board Games', 'Japan'), { countries: ['JP'] }),
  judged('korean drama viewers 日本', about('Korean Drama', 'Japan'), { countries: ['JP'] }),
  judged('headphones Japon', about('Headphones', 'Japan'), { countries: ['JP'] }),
  judged('sparkling wine in Brasil', about('Sparkling Wine', 'Brazil'), { countries: ['BR'] }),
  judged('football league fans Brasilien', about('Football League', 'Brazil'), { countries: ['BR'] }),
  judged('energy drinks México', about('Energy Drinks', 'Mexico'), { countries: ['MX'] }),
  judged(
    'camping holiday planners in New Zealand',
    { ...about('Camping Holiday', ...AU), ...PLANNERS },
    { countries: ['NZ'] },
  ),
  judged(
    'rugby live viewers Australien',
    { ...about('Rugby', ...AU), stances: ['Live Viewers'] },
    { countries: ['AU'] },
  ),
  judged('sleep aids in Frankreich', about('Sleep Aids', 'France'), { countries: ['FR'] }),
  judged('cheese counter, Francia', about('Cheese Counter', 'France'), { countries: ['FR'] }),
  judged(
    'CRM software evaluators in France',
    { ...about('CRM Software', 'France'), stances: ['Active Evaluators'] },
    { countries: ['FR'] },
  ),
  // Slips of the pen in names of places and things.
  judged(
    'mortgage seekers in Germny',
    { ...about('Mortgage', 'Germany'), ...SEEKERS },
    { countries: ['DE'] },
  ),
  judged('camper vans in Frnace', about('Camper Van', 'France'), {}),
  judged(
    'safari planners in Austrlia',
    { ...about('Safari', ...AU), ...PLANNERS },
    { countries: ['AT', 'AU'] },
  ),
  judged('minivan owners in the Untied Kingdom', { ...about('Minivan'), stances: ['Owners'] }, {}),
  judged('retirment savngs', about('Retirement Savings')),
  judged('espreso machines', about('Espresso Machines')),
  judged('prenatal vitmins', about('Prenatal Vitamins')),
  judged('headphnes and earphones', about('Headphones')),
  judged('laundery care', about('Laundry Care')),
  judged('charitible giving', about('Charitable Giving')),
  judged('sience fiction binge viewers', { ...about('Science Fiction'), stances: ['Binge Viewers'] }),
  judged(
    'electric vehical owners in Italy',
    { subjects: EV, stances: ['Owners'], places: ['Italy'] },
    { countries: ['IT'] },
  ),
  // How far back, in words.
  judged(
    'mortgage seekers in the last six months',
    { ...about('Mortgage'), ...SEEKERS, windows: ['6 Months'] },
    { lookbackDays: [180] },
  ),
  judged(
    'power tools, past twelve months',
    { ...about('Power Tools'), windows: ['12 Months'] },
    { lookbackDays: [360] },
  ),
  judged('kids toys last month', { ...about('Kids Toys'), windows: ['30 Days'] }, { lookbackDays: [30] }),
  judged(
    'rental car bookers last week',
    { ...about('Rental Car'), stances: ['Bookers'], windows: ['7 Days'] },
    { lookbackDays: [7] },
  ),
  judged(
    'outdoor clothing over the past quarter',
    { ...about('Outdoor Clothing'), windows: ['90 Days'] },
    { lookbackDays: [90] },
  ),
  judged(
    'frozen pizza within the last year',
    { ...about('Frozen Pizza'), windows: ['12 Months'] },
    { lookbackDays: [360] },
  ),
  judged(
    'tennis majors, two months',
    { ...about('Tennis Majors'), windows: ['60 Days'] },
    { lookbackDays: [60] },
  ),
  judged(
    'spa weekend 60-day lookback',
    { ...about('Spa Weekend'), windows: ['60 Days'] },
    { lookbackDays: [60] },
  ),
  // Prices and platforms are no part of what is sought.
  judged('instant loan, CPM under $5', about('Instant Loan'), { maxCpm: { amount: 5, currency: 'USD' } }),
  judged('cat food for less than 3 EUR CPM', about('Cat Food'), { maxCpm: { amount: 3, currency: 'EUR' } }),
  judged('office leasing at €2.50 CPM or less', about('Office Leasing'), {
    maxCpm: { amount: 2.5, currency: 'EUR' },
  }),
  judged('solar financing, max 400 yen cpm, Japan', about('Solar Financing', 'Japan'), {
    maxCpm: { amount: 400, currency: 'JPY' },
    countries: ['JP'],
  }),
  judged(
    'data warehouse decision makers with a cpm below 4',
    { ...about('Data Warehouse'), stances: ['Decision Makers'] },
    { maxCpm: { amount: 4 } },
  ),
  judged(
    'sports car owners on The Trade Desk',
    { ...about('Sports Car'), stances: ['Owners'] },
    { platforms: ['the-trade-desk'] },
  ),
  judged('classic films viewers for DV360', about('Classic Films'), { platforms: ['dv360'] }),
  judged('climate policy, to be activated on Amazon', about('Climate Policy'), { platforms: ['amazon'] }),
  judged('rail journey planners via TTD activated', { ...about('Rail Journey'), ...PLANNERS }),
  judged(
    'slow fashion in Italy on DV360 up to 6 USD CPM, last 30 days',
    { ...about('Slow Fashion', 'Italy'), windows: ['30 Days'] },
    { countries: ['IT'], platforms: ['dv360'], maxCpm: { amount: 6, currency: 'USD' }, lookbackDays: [30] },
  ),
  // What looks like one of these and is none.
  judged('local elections voters', about('Local Elections'), { countries: [], platforms: [] }),
  judged('gluten free diet, households with income under $50', about('Gluten-Free Diet'), { countries: [] }),
  judged('home makeover shows', about('Home Makeover'), { countries: [], lookbackDays: [] }),
  judged('festival trip on a budget', about('Festival Trip'), { platforms: [] }),
]
