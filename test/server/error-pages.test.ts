import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { ERROR_CODES } from '../../src/adcp/error.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'

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

const OF_THE_SPECIFICATION = ['AGENT_ACCESS_DENIED'] // its "Errors" name it, the schemas' list does not

test('each code is one of the protocol, with the recovery that it gives', { skip: SCHEMAS_ABSENT }, (t) => {
  const { enumMetadata } = adcpSchema('enums/error-code.json').schema as {
    enumMetadata: Record<string, { recovery: string }>
  }
  const codes = Object.entries(ERROR_CODES).filter(([code]) => !OF_THE_SPECIFICATION.includes(code))
  for (const [code, recovery] of codes) t.equal(enumMetadata[code]?.recovery, recovery, code)
  t.end()
})
