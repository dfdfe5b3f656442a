/**
 * A copy as a file of JSON lines, `feed.ndjson`, one signal a line in the feed's order, and beside it `state.json`: what it
 * is a copy of, with the length and the digest of the lines. Two files cannot change in one step; the digest tells when only
 * the first did, or when somebody else wrote to it, and then a whole walk makes both new.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isRecord } from '../adcp/json.js'
import { lockFolder, makeFolder, syncFolder } from '../store/database/folder.js'
import type { Copy, CopyState } from './copy.js'

const LINES = 'feed.ndjson'
const STATE = 'state.json'

type Written = CopyState & { bytes: number; sha256: string }

/** On disk when it resolves: a rename that is on disk before what it names leaves an empty file after a power cut. */
async function writeDown(file: string, text: string): Promise<void> {
  const handle = await open(file, 'w')
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function digestOfFile(file: string): Promise<string> {
  const digest = createHash('sha256')
  for await (const chunk of createReadStream(file)) digest.update(chunk as Buffer)
  return digest.digest('hex')
}

/** What the state says, when the lines are those that it was written for. */
async function readState(folder: string): Promise<CopyState | undefined> {
  try {
    const written: unknown = JSON.parse(await readFile(join(folder, STATE), 'utf8'))
    if (!isRecord(written) || typeof written.source !== 'string') return undefined
    const { bytes: _, sha256, ...state } = written as Written
    return (await digestOfFile(join(folder, LINES))) === sha256 ? state : undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Takes the folder, which is made where it is not there. Rejects when another process has it, or it cannot be written. */
export async function openJsonLines(path: string): Promise<Copy> {
  const folder = resolve(path)
  await makeFolder(folder)
  const release = await lockFolder(folder)
  const part = join(folder, `${LINES}.part`)
  // The folder is ours until we let go of it: it is read once, and then known.
  let held = await readState(folder).catch((error: unknown) => {
    release()
    throw error
  })
  let writing: FileHandle | undefined

  async function drop(): Promise<void> {
    await writing?.close()
    writing = undefined
    await rm(part, { force: true })
  }

  return {
    state: async () => held,
    async replace() {
      await drop()
      const handle = await open(part, 'w')
      writing = handle
      const digest = createHash('sha256')
      let bytes = 0
      return {
        async add(rows) {
          const lines = Buffer.from(rows.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
          digest.update(lines)
          bytes += lines.length
          await handle.writeFile(lines)
        },
        async commit(state) {
          await handle.sync()
          await handle.close()
          writing = undefined
          const written: Written = { ...state, bytes, sha256: digest.digest('hex') }
          await writeDown(join(folder, `${STATE}.part`), `${JSON.stringify(written)}\n`)
          held = undefined // between the two names the folder holds no copy that could be vouched for
          await rename(part, join(folder, LINES))
          await rename(join(folder, `${STATE}.part`), join(folder, STATE))
          await syncFolder(folder)
          held = state
        },
        abandon: drop,
      }
    },
    async close() {
      await drop()
      release()
    },
  }
}
