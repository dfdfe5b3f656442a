import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { ERROR_CODES } from '../../src/adcp/error.js'

const FOLDER = 'docs/errors'
const WARNINGS = [
  'PARTIAL_COVERAGE',
  'PRICES_CONVERTED',
  'PRICING_UNAVAILABLE',
  'QUESTION_CUT',
  'STALE_DATA',
  'UNKNOWN_FILTER',
]

test('each code has one page, and each page one code', (t) => {
  const pages = readdirSync(FOLDER).map((file) => file.replace(/\.md$/, ''))
  t.same(pages.sort(), [...Object.keys(ERROR_CODES), ...WARNINGS].sort())
  t.end()
})

test('a page says the recovery that the code carries', (t) => {
  for (const [code, recovery] of Object.entries(ERROR_CODES)) {
    t.ok(readFileSync(`${FOLDER}/${code}.md`, 'utf8').includes(`Recovery: \`${recovery}\``), code)
  }
  t.end()
})
