/** The examples of docs/clients.md as they stand there, and what each host of language models would make of its file. */
import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { curlFinds } from '../../operations/support/printed.js'
import { BUYER, startWorld } from '../../support/federation.js'
import { temporaryFolder } from '../../support/temporary-folder.js'

const run = promisify(execFile)
const DEMO = 'http://127.0.0.1:8080'

/** `file`: where the page says that the example has to stand. */
export type Example = { heading: string; language: string; code: string; file: string | undefined }

export async function examples(): Promise<Example[]> {
  const page = await readFile('docs/clients.md', 'utf8')
  return page.split(/^## /m).flatMap((section) => {
    const heading = section.slice(0, section.indexOf('\n'))
    return [...section.matchAll(/(?:reads `([^`]+)`[^\n]*\n\n)?^```(\w+)\n(.*?)^```/gms)].map(
      ([, file, language = '', code = '']) => ({ heading, language, code, file }),
    )
  })
}

/** Whether an example needs packages of the conformance run: the older A2A SDK and the protocol's own. */
export const isOfConformance = ({ heading }: Example) => /A2A SDK 0\.3|protocol's SDK/i.test(heading)

/** A running Tributary that lets nobody in without a key, so that an example without its key fails. */
export async function startDemo(t: Test) {
  const callers = { anonymous: 'deny', keys: [{ id: 'demo', token_sha256: hash('sha256', BUYER, 'hex') }] }
  const world = await startWorld({ signals: 240, config: () => ({ callers }) })
  t.teardown(() => world.close())
  const { url } = world.federation
  const here = (code: string) => code.replaceAll(DEMO, url)
  const env = { ...process.env, ...(await curlFinds(await temporaryFolder(t), Number(new URL(url).port))) }

  return {
    here,
    /** As the page prints it: curl alone is told where the demo is. */
    async shell(code: string): Promise<string> {
      return (await run('bash', ['-c', code], { env })).stdout
    },
    /** What a script prints that stands in this folder. */
    async script(code: string, folder: string): Promise<string> {
      const place = await mkdtemp(join(resolve(folder), 'node_modules', '.example-'))
      t.teardown(() => rm(place, { recursive: true, force: true }))
      const file = join(place, 'example.mjs')
      await writeFile(file, here(code))
      return (await run(process.execPath, [file])).stdout
    },
  }
}
