/**
 * An answer as text, for language models and people: what it says, the rows to continue with, and what to do next. It
 * is bounded, because hosts put it into a prompt; the complete answer is sent as data with it. Names come from
 * strangers: they are quoted, kept on one line and cut.
 */

import type { Answered } from '../../adcp/answer.js'
import { isRecord } from '../../adcp/json.js'
import { firstRows } from './first-rows.js'

const ROWS = 10
const WHOLESALE_ROWS = 5 // a client that walks the feed reads the data; its text must not cost the parsing of a page
const MOST_KNOWN = 2_000 // pages of one chunk of a snapshot whose text is remembered
const FEW = 3 // prices and destinations of one row
const NAME = 80
const FIELDS = 2_000

const NEXT_STEP =
  'To buy one: activate_signal with its signal_agent_segment_id, a pricing_option_id, destinations and a new idempotency_key.'

const records = (value: unknown) => (Array.isArray(value) ? value.filter(isRecord) : [])

function quoted(value: unknown): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these would break out of the line
  const line = String(value ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
  return JSON.stringify(line.length > NAME ? `${line.slice(0, NAME - 1)}…` : line)
}

function several(texts: readonly string[]): string {
  const more = texts.length - FEW
  return texts.slice(0, FEW).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function price(option: Record<string, unknown>): string {
  const { model, currency, cpm, amount, percent, pricing_option_id: id } = option
  const figure = cpm ?? amount ?? (percent === undefined ? '' : `${percent}%`)
  return `${[figure, currency, model].filter((part) => part !== undefined && part !== '').join(' ')} (pricing_option_id ${id})`
}

function destination(deployment: Record<string, unknown>): string {
  const { platform, agent_url, account, is_live } = deployment
  const place = quoted(platform ?? agent_url)
  return `${place}${account === undefined ? '' : ` account ${quoted(account)}`}${is_live === true ? ' (live)' : ''}`
}

function rowText(row: Record<string, unknown>, at: number): string {
  const { name, data_provider, signal_type, signal_agent_segment_id, coverage_percentage } = row
  const prices = records(row.pricing_options).map(price)
  const places = records(row.deployments).map(destination)
  return [
    `${at + 1}. ${quoted(name)}`,
    [signal_type, data_provider === undefined ? '' : `by ${quoted(data_provider)}`].filter(Boolean).join(' '),
    `signal_agent_segment_id ${signal_agent_segment_id}`,
    ...(prices.length > 0 ? [`price ${several(prices)}`] : []),
    ...(places.length > 0 ? [`destinations ${several(places)}`] : []),
    ...(coverage_percentage === undefined ? [] : [`coverage ${coverage_percentage}%`]),
  ].join('; ')
}

function rowsText(parts: readonly Uint8Array[], most: number): string {
  const { rows, more } = firstRows(parts, most)
  const lines = rows.map(rowText)
  if (more) lines.push('More signals of this page stand in structuredContent.signals.')
  if (lines.length > 0) lines.push(NEXT_STEP)
  return lines.join('\n')
}

/** A snapshot never changes: the text for its bytes stays valid as long as they exist. */
const known = new WeakMap<ArrayBufferLike, Map<string, string>>()

function walkText(parts: readonly Uint8Array[]): string {
  const [whole] = parts
  if (!whole || parts.length > 1 || !(whole.buffer instanceof SharedArrayBuffer)) {
    return rowsText(parts, WHOLESALE_ROWS)
  }
  const texts = known.get(whole.buffer) ?? new Map<string, string>()
  known.set(whole.buffer, texts)
  const place = `${whole.byteOffset}+${whole.byteLength}`
  const text = texts.get(place) ?? rowsText(parts, WHOLESALE_ROWS)
  if (texts.size >= MOST_KNOWN) texts.clear()
  texts.set(place, text)
  return text
}

function signalsText({ rows, fields, message }: Answered & { rows: NonNullable<Answered['rows']> }): string {
  const { pagination, wholesale_feed_version: version } = fields
  const said = version === undefined ? rowsText(rows.parts, ROWS) : walkText(rows.parts)
  const cursor = isRecord(pagination) ? pagination.cursor : undefined
  const more = typeof cursor === 'string' ? `Next page: pagination.cursor ${JSON.stringify(cursor)}.` : ''
  return [message, said, more].filter((line) => line !== '').join('\n')
}

/** The answer in words; a refusal's are its error as JSON, which agrees with the data beside it. */
export function answerText(answer: Answered): string {
  const { rows, fields, message } = answer
  if (rows) return signalsText({ ...answer, rows })
  const data = JSON.stringify(fields)
  if (data === '{}') return message
  return data.length <= FIELDS ? `${message}\n${data}` : `${message}\nThe details stand in structuredContent.`
}
