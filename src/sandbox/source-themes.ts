/** What the agents of the demo market own or build themselves: travel, viewing, sport, shopping, blends, lookalikes. */
import type { Theme } from './vocabulary.js'

export const travel: Theme = {
  key: 'travel',
  branch: 'Travel',
  who: 'Adults who',
  evidence: 'First-party data of the exchange: searches and bookings on partner travel sites.',
  subjects: [
    { name: 'Beach Holiday', about: 'a beach holiday' },
    { name: 'Ski Trip', about: 'a ski trip' },
    { name: 'City Break', about: 'a city break' },
    { name: 'Family Cruise', about: 'a family cruise', restricted: ['familial_status'] },
    { name: 'Long-Haul Flight', about: 'a long-haul flight' },
    { name: 'Rail Journey', about: 'a journey by night train' },
    { name: 'Camping Holiday', about: 'a camping holiday' },
    { name: 'Luxury Resort', about: 'a stay at a luxury resort' },
    { name: 'Rental Car', about: 'a rental car' },
    { name: 'Festival Trip', about: 'a trip to a music festival' },
    { name: 'Spa Weekend', about: 'a spa weekend' },
    { name: 'Safari', about: 'a safari' },
  ],
  stances: [
    { label: 'Planners', says: 'searched for', sources: ['web_usage'], methodology: 'observed' },
    { label: 'Bookers', says: 'booked', sources: ['online_ecommerce'], methodology: 'observed' },
    {
      label: 'Departure Horizon',
      says: 'are grouped by when they leave for',
      sources: ['online_ecommerce'],
      methodology: 'observed',
      values: ['this_week', 'this_month', 'this_quarter', 'later'],
    },
    {
      label: 'Spend Index',
      says: 'are scored by what they usually spend on',
      sources: ['transaction'],
      methodology: 'derived',
      range: { min: 0, max: 200 },
    },
  ],
}

export const blends: Theme = {
  key: 'blends',
  branch: 'Composite Audiences',
  who: 'Adults who',
  evidence: 'Composed on demand from several licensed sources and refreshed with them.',
  subjects: [
    {
      name: 'New Parents Moving Home',
      about: 'a family home after a birth',
      restricted: ['familial_status'],
    },
    { name: 'Eco-Minded Commuters', about: 'a cleaner way to commute' },
    { name: 'Weekend Renovators', about: 'a home renovation' },
    { name: 'Empty Nesters', about: 'time and money for themselves', restricted: ['age'] },
    { name: 'Remote Workers', about: 'a better home office' },
    { name: 'Gamers Turning Viewers', about: 'esports and live streams' },
    { name: 'Back to School', about: 'school supplies for the new year' },
    { name: 'Early Gadget Adopters', about: 'new consumer electronics' },
    { name: 'Frequent Diners', about: 'dining out' },
    { name: 'Garden Season', about: 'garden furniture and plants' },
  ],
  stances: [
    {
      label: 'Composite',
      says: 'show several signs of wanting',
      sources: ['web_usage', 'transaction'],
      methodology: 'modeled',
    },
    {
      label: 'Weighted Score',
      says: 'are scored across sources for wanting',
      sources: ['web_usage', 'app_usage'],
      methodology: 'modeled',
      range: { min: 0, max: 1 },
    },
    {
      label: 'Core',
      says: 'meet every condition for',
      sources: ['transaction', 'panel'],
      methodology: 'derived',
    },
  ],
}

export const shopping: Theme = {
  key: 'shopping',
  branch: 'Retail Media',
  who: 'Shoppers who',
  evidence: 'First-party data of the hub: carts and orders of 300 online shops.',
  subjects: [
    { name: 'Running Shoes', about: 'running shoes' },
    { name: 'Smart Home', about: 'smart home devices' },
    { name: 'Skincare', about: 'skincare' },
    { name: 'Board Games', about: 'board games' },
    { name: 'Espresso Machines', about: 'espresso machines' },
    { name: 'Outdoor Clothing', about: 'outdoor clothing' },
    { name: 'Headphones', about: 'wireless headphones' },
    { name: 'Power Tools', about: 'power tools' },
    { name: 'Kids Toys', about: 'toys', restricted: ['familial_status'], policy: ['children_directed'] },
    { name: 'E-Bikes', about: 'e-bikes' },
  ],
  stances: [
    {
      label: 'Cart Abandoners',
      says: 'left in the cart',
      sources: ['online_ecommerce'],
      methodology: 'observed',
    },
    {
      label: 'Repeat Purchasers',
      says: 'ordered more than once',
      sources: ['online_ecommerce'],
      methodology: 'observed',
    },
    {
      label: 'Price Tiers',
      says: 'are grouped by the price tier in which they buy',
      sources: ['online_ecommerce'],
      methodology: 'derived',
      values: ['value', 'mid', 'premium'],
      multiValued: true,
    },
  ],
}

export const lookalikes: Theme = {
  key: 'lookalikes',
  branch: 'Lookalike Models',
  who: 'Adults who',
  evidence: 'Modelled from a consented seed and scored against a holdout every week.',
  subjects: [
    { name: 'Meal Kit Subscribers', about: 'a meal kit subscription' },
    { name: 'Streaming Switchers', about: 'a new streaming service' },
    { name: 'Broadband Upgraders', about: 'faster broadband' },
    { name: 'Charity Donors', about: 'a monthly donation' },
    { name: 'Online Grocery Converts', about: 'groceries delivered to the door' },
    { name: 'Language Learners', about: 'a language course' },
    { name: 'Pet Insurance Buyers', about: 'pet insurance', policy: ['financial_services'] },
    { name: 'Mobile Contract Switchers', about: 'a new mobile contract' },
  ],
  stances: [
    {
      label: 'Lookalike, Narrow',
      says: 'most resemble people who bought',
      sources: ['web_usage'],
      methodology: 'modeled',
    },
    {
      label: 'Lookalike, Broad',
      says: 'resemble people who bought',
      sources: ['web_usage'],
      methodology: 'modeled',
    },
    {
      label: 'Similarity Score',
      says: 'are scored by resemblance to people who bought',
      sources: ['app_usage'],
      methodology: 'modeled',
      range: { min: 0, max: 1 },
    },
  ],
}

export const streaming: Theme = {
  key: 'streaming',
  branch: 'TV and Streaming',
  who: 'Viewing households that',
  evidence: 'First-party viewing data of 12 million logged-in streaming devices.',
  subjects: [
    { name: 'Crime Drama', about: 'crime drama' },
    { name: 'Nature Documentary', about: 'nature documentaries' },
    { name: 'Reality Dating', about: 'reality dating shows' },
    {
      name: 'Kids Animation',
      about: 'animation for kids',
      policy: ['children_directed'],
      restricted: ['familial_status'],
    },
    { name: 'Cooking Shows', about: 'cooking shows' },
    { name: 'Science Fiction', about: 'science fiction series' },
    { name: 'Morning News', about: 'the morning news' },
    { name: 'Stand-Up Comedy', about: 'stand-up comedy' },
    { name: 'Home Makeover', about: 'home makeover shows' },
    { name: 'Classic Films', about: 'classic films' },
    { name: 'Korean Drama', about: 'Korean drama' },
    { name: 'True Crime Podcasts', about: 'true crime podcasts on TV' },
  ],
  stances: [
    {
      label: 'Binge Viewers',
      says: 'streamed three or more episodes in a row of',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
    },
    {
      label: 'Regular Viewers',
      says: 'watched every week',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
    },
    {
      label: 'Ad-Tier Viewers',
      says: 'watched on the ad-supported tier',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
    },
    {
      label: 'Daypart Viewers',
      says: 'are grouped by the time of day at which they watch',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
      values: ['morning', 'daytime', 'prime_time', 'late_night'],
      multiValued: true,
    },
  ],
}

export const sport: Theme = {
  key: 'sport',
  branch: 'Sports',
  who: 'Viewing households that',
  evidence: 'First-party viewing data of live sport and highlights.',
  subjects: [
    { name: 'Football League', about: 'league football' },
    { name: 'Champions Nights', about: 'European cup football' },
    { name: 'Basketball', about: 'basketball' },
    { name: 'Formula Racing', about: 'formula racing' },
    { name: 'Cycling Tours', about: 'the great cycling tours' },
    { name: 'Tennis Majors', about: 'the tennis majors' },
    { name: 'Winter Sports', about: 'skiing and biathlon' },
    { name: 'Rugby', about: 'rugby' },
    { name: 'Golf', about: 'golf' },
    { name: 'Sports Betting Shows', about: 'betting previews', policy: ['gambling'], restricted: ['age'] },
  ],
  stances: [
    {
      label: 'Live Viewers',
      says: 'watched live',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
    },
    {
      label: 'Highlights Viewers',
      says: 'watched the highlights of',
      sources: ['tv_ott_or_stb_device'],
      methodology: 'observed',
    },
    {
      label: 'Fan Intensity',
      says: 'are scored by how much they watch',
      sources: ['tv_ott_or_stb_device', 'app_usage'],
      methodology: 'derived',
      range: { min: 0, max: 10 },
    },
    {
      label: 'Second-Screen Fans',
      says: 'used an app while watching',
      sources: ['tv_ott_or_stb_device', 'app_behavior'],
      methodology: 'inferred',
    },
  ],
}
