/**
 * The copy in files (copy.ts): `feed.ndjson`, one signal a line in the feed's order, and in the same folder `state.json`: what it is a
 * copy of, with the length and the digest of the lines. Two files cannot change in one step; the digest tells when only the first did,
 * or when somebody else wrote to it, and then a whole walk makes both new.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder } from '../store/blob-files.js'
import {
  type Copy,
  type CopyRow,
  type CopyState,
  type RowChange,
  type RowChanges,
  stateIn,
  takeFolder,
} from './copy.js'

const LINES = 'feed.ndjson'
const STATE = 'state.json'
const PORTION = 2 ** 20 // characters that are written at once

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

const lineOf = (row: CopyRow['row']) => `${JSON.stringify(row)}\n`
const ID = /"signal_agent_segment_id":("(?:[^"\\]|\\.)*")/g

/** The row of a line, where it may be one of those that change; most lines need not be parsed for that. */
function rowIn(line: string, changes: RowChanges): CopyRow | undefined {
  const isNamed = [...line.matchAll(ID)].some(([, id]) => changes.has(JSON.parse(id as string) as string))
  if (!isNamed) return undefined
  const row = JSON.parse(line) as CopyRow['row']
  const id = row.signal_agent_segment_id as string
  return changes.has(id) ? { id, row } : undefined
}

/** Without their ends, in linear time. A line is what ends in "\n": `readline` ends them at U+2028 too, which JSON may hold. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let begun: string[] = []
  for await (const chunk of createReadStream(file, 'utf8')) {
    const [end, ...lines] = (chunk as string).split('\n')
    begun.push(end as string)
    const next = lines.pop()
    if (next === undefined) continue
    yield begun.join('')
    yield* lines
    begun = [next]
  }
}

function changed(row: CopyRow['row'], change: RowChange): CopyRow['row'] | undefined {
  if (change.kind === 'put') return change.row
  return change.kind === 'set' ? { ...row, ...change.members } : undefined
}

/** Undefined when there is no such file. What cannot be read is named: an error of reading says no name by itself. */
async function readOf<T>(file: string, read: (file: string) => Promise<T>): Promise<T | undefined> {
  try {
    return await read(file)
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new Error(`${file}: ${message}`, { cause })
  }
}

/** What the state says, when the lines are those that it was written for. */
async function readState(folder: string): Promise<Written | undefined> {
  const text = await readOf(join(folder, STATE), (file) => readFile(file, 'utf8'))
  const written = text === undefined ? undefined : stateIn(text)
  if (!written) return undefined
  const { sha256 } = written as Written
  return (await readOf(join(folder, LINES), digestOfFile)) === sha256 ? (written as Written) : undefined
}

function stateOf({ bytes: _, sha256: __, ...state }: Written): CopyState {
  return state
}

/** `feed.ndjson` in a folder. Rejects when it cannot be taken. */
export async function openJsonLines(path: string): Promise<Copy> {
  const { folder, release } = await takeFolder(path)
  const part = join(folder, `${LINES}.part`)
  async function begin(): Promise<Written | undefined> {
    await rm(part, { force: true }) // of a process that was killed
    return await readState(folder)
  }

  // The folder is locked until it is closed, so its state is read once and then remembered.
  let held = await begin().catch((error: unknown) => {
    release()
    throw error
  })
  let writing: FileHandle | undefined

  async function drop(): Promise<void> {
    if (!writing) return
    await writing.close()
    writing = undefined
    await rm(part, { force: true })
  }

  const nextState = join(folder, `${STATE}.part`)
  const writeState = (written: Written) => writeDown(nextState, `${JSON.stringify(written)}\n`)

  /** The state is on disk when it resolves. */
  async function takeState(written: Written): Promise<void> {
    await rename(nextState, join(folder, STATE))
    await syncFolder(folder)
    held = written
  }

  /** Lines that take the place of those before once they are committed. */
  async function rewrite() {
    await drop()
    const handle = await open(part, 'w')
    writing = handle
    const digest = createHash('sha256')
    let bytes = 0
    return {
      async add(text: string): Promise<void> {
        const lines = Buffer.from(text)
        digest.update(lines)
        bytes += lines.length
        await handle.writeFile(lines)
      },
      async commit(state: CopyState): Promise<void> {
        await handle.sync()
        await handle.close()
        const written: Written = { ...state, bytes, sha256: digest.digest('hex') }
        await writeState(written)
        held = undefined // between the two renames the folder holds no valid copy
        await rename(part, join(folder, LINES))
        writing = undefined
        await takeState(written)
      },
    }
  }

  return {
    state: async () => held && stateOf(held),
    async replace() {
      const { add, commit } = await rewrite()
      return { add: (rows) => add(rows.map(({ row }) => lineOf(row)).join('')), commit, abandon: drop }
    },

    /** Rows stay where they are; new ones come last. */
    async amend(changes, said) {
      if (!held) return undefined
      if (changes.size === 0) {
        const written = { ...held, ...said }
        await writeState(written)
        await takeState(written)
        return stateOf(written)
      }
      const { add, commit } = await rewrite()
      try {
        const left = new Map(changes)
        let [rows, text] = [0, '']
        const write = async (line: string) => {
          text += line
          rows += 1
          if (text.length < PORTION) return
          await add(text)
          text = ''
        }
        for await (const line of linesOf(join(folder, LINES))) {
          const found = rowIn(line, changes)
          const change = found && left.get(found.id)
          if (!change) {
            await write(`${line}\n`)
            continue
          }
          left.delete(found.id)
          const row = changed(found.row, change)
          if (row) await write(lineOf(row))
        }
        for (const change of left.values()) {
          if (change.kind === 'set') return undefined
          if (change.kind === 'put') await write(lineOf(change.row))
        }
        await add(text)
        const state = { ...stateOf(held), ...said, rows }
        await commit(state)
        return state
      } finally {
        await drop()
      }
    },

    async close() {
      await drop()
      release()
    },
  }
}
