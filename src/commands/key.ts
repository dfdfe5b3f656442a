/** `tributary key`: makes the bearer key of a caller, or takes one that exists, and says its digest for the configuration. */
import { hash, randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { CommandFailure, EXIT } from './terminal.js'

const KEY_BYTES = 32

export type KeyCommand = { given: boolean; json: boolean; input: NodeJS.ReadStream; out: NodeJS.WriteStream }

/** `given`: the key is read from `input`, so that it stands in no history of a shell. */
export async function printKey({ given, json, input, out }: KeyCommand): Promise<void> {
  const key = given ? (await text(input)).trim() : randomBytes(KEY_BYTES).toString('base64url')
  if (key === '' || /\s/.test(key)) {
    throw new CommandFailure(
      '--stdin: expected a key, one word; for instance printf %s "$KEY" | tributary key --stdin',
      EXIT.usage,
    )
  }
  const digest = hash('sha256', key, 'hex')
  if (json) out.write(`${JSON.stringify({ ...(!given && { key }), token_sha256: digest })}\n`)
  else out.write(`${given ? '' : `key: ${key}\n`}token_sha256: "${digest}"\n`)
}
