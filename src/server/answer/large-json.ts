/**
 * JSON that may be megabytes, as an answer about a signal with thousands of offers is: it is written in portions, because
 * `JSON.stringify` never stops.
 */
import type { FastifyReply } from 'fastify'
import { inTurns } from '../../process/portion-turns.js'
import { createMeter, type InPortions } from '../../process/portions.js'

const UNITS_A_PIECE = 2
const BYTES_A_UNIT = 10 // 80 KB in a millisecond

const isMade = (value: unknown): value is object => typeof value === 'object' && value !== null

/** The text that `JSON.stringify` gives of plain values. */
export function* jsonBytes(value: object): InPortions<Buffer> {
  const meter = createMeter()
  const chunks: Buffer[] = []
  let text = ''

  function* write(one: unknown): InPortions<void> {
    if (!isMade(one) || !Object.values(one).some(isMade)) {
      const piece = JSON.stringify(one)
      text += piece
      meter.did(UNITS_A_PIECE + piece.length / BYTES_A_UNIT)
      if (!meter.isDue()) return
      chunks.push(Buffer.from(text))
      text = ''
      return yield
    }
    const isList = Array.isArray(one)
    let before = isList ? '[' : '{'
    for (const [name, held] of Object.entries(one)) {
      if (held === undefined && !isList) continue
      text += isList ? before : `${before}${JSON.stringify(name)}:`
      before = ','
      yield* write(held ?? null)
    }
    text += isList ? ']' : '}'
  }

  yield* write(value)
  return Buffer.concat([...chunks, Buffer.from(text)])
}

/** Once the signal is aborted, nothing more is written, and the promise rejects with its reason. */
export async function sendLargeJson(
  reply: FastifyReply,
  value: object,
  signal?: AbortSignal,
): Promise<FastifyReply> {
  const json = await inTurns(jsonBytes(value), signal)
  return reply.header('content-type', 'application/json; charset=utf-8').send(json)
}
