/** What the four data providers of the demo market sell: cars, groceries and health, business and money, opinions. */
import type { Subject, Theme } from './vocabulary.js'

export const auto: Theme = {
  key: 'auto',
  branch: 'Automotive',
  who: 'Adults who',
  evidence: 'Built from dealer visits, configurator sessions and vehicle registrations.',
  subjects: [
    { name: 'Electric SUV', about: 'an electric SUV' },
    { name: 'Compact SUV', about: 'a compact SUV' },
    { name: 'Full-Size Pickup', about: 'a full-size pickup truck' },
    { name: 'Plug-In Hybrid', about: 'a plug-in hybrid car' },
    { name: 'Electric Vehicle', about: 'a battery-electric vehicle (EV)' },
    { name: 'Luxury Sedan', about: 'a luxury sedan' },
    { name: 'Minivan', about: 'a minivan or family van', restricted: ['familial_status'] },
    { name: 'Certified Pre-Owned Car', about: 'a certified pre-owned car' },
    { name: 'Sports Car', about: 'a sports car' },
    { name: 'Motorcycle', about: 'a motorcycle' },
    { name: 'City Car', about: 'a city car' },
    { name: 'Station Wagon', about: 'a station wagon' },
    { name: 'Camper Van', about: 'a camper van' },
    { name: 'First Car', about: 'a first car', restricted: ['age'] },
    { name: 'Car Subscription', about: 'a monthly car subscription' },
    { name: 'Home Wallbox', about: 'a home charger for an electric car' },
    { name: 'Winter Tires', about: 'a set of winter tires' },
    { name: 'Car Insurance', about: 'car insurance', policy: ['financial_services'] },
  ],
  stances: [
    {
      label: 'In-Market Intenders',
      says: 'compared, configured or priced',
      sources: ['web_usage', 'app_behavior'],
      methodology: 'derived',
    },
    {
      label: 'Owners',
      says: 'own, by registration,',
      sources: ['public_record_other', 'offline_transaction'],
      methodology: 'observed',
    },
    {
      label: 'Dealer Visitors',
      says: 'visited a dealer for',
      sources: ['geo_location'],
      methodology: 'observed',
    },
    {
      label: 'Purchase Propensity',
      says: 'are scored for their likelihood to buy',
      sources: ['web_usage', 'transaction'],
      methodology: 'modeled',
      range: { min: 0, max: 1 },
    },
    {
      label: 'Consideration Stage',
      says: 'are placed by how close they are to choosing',
      sources: ['web_usage', 'online_survey'],
      methodology: 'inferred',
      values: ['curious', 'comparing', 'shortlisted', 'decided'],
    },
    {
      label: 'Likely Switchers',
      says: 'are likely to change brand when they replace',
      sources: ['online_survey', 'web_usage'],
      methodology: 'modeled',
    },
  ],
}

export const grocery: Theme = {
  key: 'grocery',
  branch: 'Grocery and Household',
  who: 'Households that',
  evidence: 'Built from loyalty-card baskets in 9,000 stores and from online orders.',
  subjects: [
    { name: 'Organic Produce', about: 'organic fruit and vegetables' },
    { name: 'Plant-Based Protein', about: 'meat substitutes and plant-based protein' },
    { name: 'Craft Beer', about: 'craft beer', policy: ['alcohol'], restricted: ['age'] },
    { name: 'Premium Coffee', about: 'premium coffee beans and capsules' },
    { name: 'Baby Care', about: 'diapers and baby food', restricted: ['familial_status'] },
    { name: 'Cat Food', about: 'cat food and litter' },
    { name: 'Dog Food', about: 'dog food and treats' },
    { name: 'Frozen Pizza', about: 'frozen pizza' },
    { name: 'Sparkling Wine', about: 'sparkling wine', policy: ['alcohol'], restricted: ['age'] },
    { name: 'Breakfast Cereal', about: 'breakfast cereal' },
    { name: 'Laundry Care', about: 'detergent and fabric care' },
    { name: 'Energy Drinks', about: 'energy drinks' },
    { name: 'Cheese Counter', about: 'cheese from the counter' },
    { name: 'Ready Meals', about: 'chilled ready meals' },
    { name: 'Barbecue Season', about: 'barbecue meat, charcoal and sauces' },
    { name: 'Own-Label Staples', about: 'own-label staples' },
    { name: 'Lactose-Free Dairy', about: 'lactose-free dairy' },
    { name: 'Chocolate Gifts', about: 'boxed chocolate gifts' },
  ],
  stances: [
    {
      label: 'Frequent Buyers',
      says: 'bought, three times or more,',
      sources: ['loyalty_card', 'transaction'],
      methodology: 'observed',
    },
    {
      label: 'Lapsed Buyers',
      says: 'used to buy but stopped buying',
      sources: ['loyalty_card'],
      methodology: 'observed',
    },
    {
      label: 'New-to-Category Buyers',
      says: 'newly discovered and bought',
      sources: ['loyalty_card', 'online_ecommerce'],
      methodology: 'observed',
    },
    {
      label: 'Basket Share',
      says: 'are scored by the share of their basket that goes to',
      sources: ['loyalty_card'],
      methodology: 'derived',
      range: { min: 0, max: 100 },
    },
    {
      label: 'Shopping Missions',
      says: 'are grouped by the trips on which they buy',
      sources: ['loyalty_card', 'geo_location'],
      methodology: 'derived',
      values: ['weekly_shop', 'top_up', 'bulk_buy', 'treat'],
      multiValued: true,
    },
    {
      label: 'Promotion Seekers',
      says: 'waited for an offer before buying',
      sources: ['loyalty_card', 'online_ecommerce'],
      methodology: 'inferred',
    },
  ],
}

const HEALTH: Omit<Subject, 'name' | 'about'> = {
  restricted: ['health_data'],
  policy: ['health_wellness'],
  art9: 'explicit_consent',
}

export const health: Theme = {
  key: 'health',
  branch: 'Health and Wellness',
  who: 'Adults who',
  evidence: 'Built only from members who opted in to health personalisation.',
  subjects: [
    { name: 'Seasonal Allergy Relief', about: 'seasonal allergy relief', ...HEALTH },
    { name: 'Migraine Care', about: 'migraine and headache care', ...HEALTH },
    { name: 'Sleep Aids', about: 'sleep aids', ...HEALTH },
    { name: 'Blood Glucose Monitoring', about: 'blood glucose monitoring', ...HEALTH },
    { name: 'Smoking Cessation', about: 'products that help to stop smoking', ...HEALTH },
    { name: 'Joint Mobility', about: 'joint and mobility supplements', ...HEALTH },
    {
      name: 'Prenatal Vitamins',
      about: 'prenatal vitamins',
      ...HEALTH,
      restricted: ['health_data', 'familial_status'],
    },
    { name: 'Contact Lenses', about: 'contact lenses and care', ...HEALTH },
    { name: 'Digestive Health', about: 'digestive health remedies', ...HEALTH },
    { name: 'Gluten-Free Diet', about: 'gluten-free food', ...HEALTH },
    { name: 'Home Fitness', about: 'home fitness equipment', policy: ['health_wellness'] },
    { name: 'Vitamin D and Minerals', about: 'vitamins and minerals', policy: ['health_wellness'] },
  ],
  stances: [
    { label: 'Buyers', says: 'bought', sources: ['loyalty_card', 'transaction'], methodology: 'observed' },
    { label: 'Researchers', says: 'read about', sources: ['web_usage'], methodology: 'inferred' },
    {
      label: 'Declared Interest',
      says: 'told us that they want offers for',
      sources: ['online_survey'],
      methodology: 'declared',
    },
    {
      label: 'Repurchase Likelihood',
      says: 'are scored for their likelihood to buy again',
      sources: ['loyalty_card'],
      methodology: 'modeled',
      range: { min: 0, max: 1 },
    },
  ],
}

export const business: Theme = {
  key: 'business',
  branch: 'Business',
  who: 'Professionals who',
  evidence: 'Built from company registers, event attendance and content consumption by company network.',
  subjects: [
    { name: 'Cloud Migration', about: 'moving their systems to the cloud' },
    { name: 'Cybersecurity', about: 'cybersecurity platforms' },
    { name: 'CRM Software', about: 'customer relationship (CRM) software' },
    { name: 'HR and Payroll', about: 'HR and payroll systems' },
    { name: 'Fleet Management', about: 'fleet management' },
    { name: 'Data Warehouse', about: 'data warehouses and analytics' },
    { name: 'Industrial Automation', about: 'industrial automation' },
    { name: 'Office Leasing', about: 'office space' },
    { name: 'Business Travel', about: 'business travel programmes' },
    { name: 'Commercial Insurance', about: 'commercial insurance', policy: ['financial_services'] },
    { name: 'Marketing Technology', about: 'marketing technology' },
    { name: 'Medical Devices', about: 'medical devices for hospitals' },
    { name: 'Sustainability Reporting', about: 'sustainability reporting' },
    { name: 'Packaging and Logistics', about: 'packaging and logistics' },
    { name: 'Generative AI Tools', about: 'generative AI tools' },
    { name: 'Construction Equipment', about: 'construction equipment' },
  ],
  stances: [
    {
      label: 'Decision Makers',
      says: 'sign off budgets for',
      sources: ['public_record_other', 'online_survey'],
      methodology: 'declared',
    },
    {
      label: 'Active Evaluators',
      says: 'compared vendors of',
      sources: ['web_usage'],
      methodology: 'derived',
    },
    {
      label: 'Company Size Bands',
      says: 'work at companies, by headcount, that buy',
      sources: ['public_record_other'],
      methodology: 'observed',
      values: ['1_49', '50_249', '250_999', '1000_plus'],
    },
    {
      label: 'Intent Surge',
      says: 'are scored for a rise in reading about',
      sources: ['web_usage'],
      methodology: 'modeled',
      range: { min: 0, max: 100 },
    },
    {
      label: 'Practitioners',
      says: 'work every day with',
      sources: ['online_survey'],
      methodology: 'declared',
    },
  ],
}

const MONEY: Omit<Subject, 'name' | 'about'> = { policy: ['financial_services'] }

export const money: Theme = {
  key: 'money',
  branch: 'Personal Finance',
  who: 'Adults who',
  evidence: 'Built from consented account aggregation and panel surveys.',
  subjects: [
    { name: 'Mortgage', about: 'a mortgage', ...MONEY },
    { name: 'Travel Credit Card', about: 'a credit card with travel rewards', ...MONEY },
    { name: 'Retirement Savings', about: 'retirement savings', ...MONEY, restricted: ['age'] },
    { name: 'ETF Investing', about: 'exchange-traded funds', ...MONEY },
    { name: 'Home Insurance', about: 'home insurance', ...MONEY },
    { name: 'Instant Loan', about: 'a consumer loan', ...MONEY },
    { name: 'Current Account Switch', about: 'a new current account', ...MONEY },
    { name: 'Buy Now Pay Later', about: 'payment by instalments', ...MONEY },
    { name: 'Solar Financing', about: 'a loan for solar panels', ...MONEY },
    { name: 'Student Loan', about: 'a student loan', ...MONEY, restricted: ['age'] },
  ],
  stances: [
    {
      label: 'Seekers',
      says: 'compared offers for',
      sources: ['web_usage', 'app_behavior'],
      methodology: 'derived',
    },
    { label: 'Holders', says: 'already hold', sources: ['transaction'], methodology: 'observed' },
    {
      label: 'Affluence Bands',
      says: 'are banded by spending power and hold',
      sources: ['transaction', 'panel'],
      methodology: 'modeled',
      values: ['mass', 'mass_affluent', 'affluent', 'high_net_worth'],
    },
    {
      label: 'Approval Propensity',
      says: 'are scored for their fit with',
      sources: ['credit_data'],
      methodology: 'modeled',
      range: { min: 0, max: 1 },
    },
  ],
}

const VIEWS: Omit<Subject, 'name' | 'about'> = {
  restricted: ['political_opinions'],
  policy: ['political'],
  art9: 'explicit_consent',
}

export const opinions: Theme = {
  key: 'opinions',
  branch: 'Attitudes',
  who: 'Panel members who',
  evidence: 'Built from a monthly survey panel of 40,000 people.',
  subjects: [
    { name: 'Climate Policy', about: 'climate policy', ...VIEWS },
    { name: 'Local Elections', about: 'local elections', ...VIEWS },
    { name: 'Public Transport', about: 'public transport' },
    { name: 'Charitable Giving', about: 'giving to charities' },
    { name: 'Renewable Energy', about: 'renewable energy at home' },
    { name: 'Housing Costs', about: 'the cost of housing' },
    { name: 'Slow Fashion', about: 'clothes that last' },
    { name: 'Data Privacy', about: 'privacy online' },
  ],
  stances: [
    { label: 'Engaged', says: 'say they act on', sources: ['online_survey'], methodology: 'declared' },
    {
      label: 'Persuadable',
      says: 'have not made up their mind on',
      sources: ['panel'],
      methodology: 'inferred',
    },
    {
      label: 'Attitude Clusters',
      says: 'are clustered by what they say about',
      sources: ['online_survey'],
      methodology: 'derived',
      values: ['enthusiast', 'pragmatist', 'sceptic'],
    },
  ],
}
