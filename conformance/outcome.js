/**
 * What a run found, as rows: `{ part, release, transport, name, steps: [{ name, outcome, why? }] }` with outcome
 * `passed`, `failed` or `skipped`. Every part gives rows of this form, one judge reads them.
 */
export const PARTS = {
  storyboards: 'Storyboards',
  fuzzer: 'Fuzzer',
  lifecycles: 'Checks of our own',
  clients: 'Official clients',
  hosts: 'Hosts of language models',
}

export const passed = (name) => ({ name, outcome: 'passed' })
export const failed = (name, why) => ({ name, outcome: 'failed', why: oneLine(why) })
export const skipped = (name, why) => ({ name, outcome: 'skipped', why: oneLine(why) })

export function oneLine(text) {
  return String(text).replaceAll(/\s+/g, ' ').trim().slice(0, 300)
}

export function count({ steps }, outcome) {
  return steps.filter((step) => step.outcome === outcome).length
}

/** A step as exceptions.js and the page name it. */
export function stepKey(row, step) {
  return `${row.release} ${row.transport} ${row.name} ${step.name}`
}
